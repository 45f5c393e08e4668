/** Lists of the admin API as CSV. */
import { once } from 'node:events'
import type { Admin } from './admin.ts'

/** Prints a list as it comes. @param path with the filters */
export async function printCsv(admin: Pick<Admin, 'open'>, path: string): Promise<void> {
  const separator = path.includes('?') ? '&' : '?'
  const { body } = await admin.open(`${path}${separator}format=csv`)
  for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
    if (!process.stdout.write(chunk)) await once(process.stdout, 'drain')
  }
}

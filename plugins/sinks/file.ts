/** Writes each event as a line of JSON, for programs that ship files. A file that has become large is renamed. */
import { appendFile, mkdir, rename, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import * as v from 'valibot'
import { eventsOption } from './webhook.ts'
import { defineSink } from '../../src/plugin.ts'

const MODE = 0o600
const COUNT = 'a whole number from 1 to 1000'
const BYTES = 'a whole number of bytes of at least 1024'

const options = v.strictObject({
  path: v.pipe(v.string(), v.minLength(1, 'the path of a file')),
  /** Bytes from which the file is renamed: to `<path>.1`, that to `<path>.2`, and so on. */
  size: v.optional(v.pipe(v.number(BYTES), v.safeInteger(BYTES), v.minValue(1024, BYTES)), 1e8),
  /** Files that are kept beside the current one. */
  keep: v.optional(
    v.pipe(v.number(COUNT), v.integer(COUNT), v.minValue(1, COUNT), v.maxValue(1000, COUNT)),
    5,
  ),
  events: eventsOption(['call.ended', 'guard.escalation', 'alert']),
})

export default defineSink({
  name: 'file',
  options,
  async setup({ path, size, keep, events }) {
    await mkdir(dirname(path), { recursive: true })
    // A file that cannot be written is a fault of the configuration.
    await appendFile(path, '', { mode: MODE })
    return {
      takes: events,
      async send(batch) {
        if (((await statOf(path))?.size ?? 0) >= size) await rotate(path, keep)
        const lines = batch.map(
          ({ id, event, at, gateway, data }) =>
            `${JSON.stringify({ id, event, at, gateway, data })}\n`,
        )
        // Opened for each batch: another program may have moved the file.
        await appendFile(path, lines.join(''), { mode: MODE })
      },
    }
  },
})

/** The oldest file is replaced. */
async function rotate(path: string, keep: number): Promise<void> {
  for (let number = keep; number >= 1; number--) {
    const from = number === 1 ? path : `${path}.${number - 1}`
    if (await statOf(from)) await rename(from, `${path}.${number}`)
  }
}

/** It is undefined where there is no file. */
async function statOf(path: string) {
  try {
    return await stat(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Writes a file as a whole: at every moment there is the old one or the new one. */
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

/** Replaces a file. It is on the disk when the promise resolves; nothing is left of an attempt that fails. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const unfinished = `${path}.${process.pid}.new`
  try {
    const file = await open(unfinished, 'w')
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(unfinished, path)
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  }
  const folder = await open(dirname(path))
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

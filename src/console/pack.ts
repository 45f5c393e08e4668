/** Part of a build: what the compiler does not make goes beside what it made, in `dist/src/console`. */
import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { libraryFiles, ownTexts } from '../server/console-files.ts'

const target = join(import.meta.dirname, '../../dist/src/console')

for (const [path, text] of await libraryFiles()) {
  await mkdir(dirname(join(target, path)), { recursive: true })
  await writeFile(join(target, path), text)
}
for (const path of await ownTexts()) {
  await mkdir(dirname(join(target, path)), { recursive: true })
  await copyFile(join(import.meta.dirname, path), join(target, path))
}

/** Merges the modules of a compiled folder into those that other folders import, and what these share. */
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { rolldown } from 'rolldown'

const IMPORTED = /(?:from|import)\s*\(?\s*['"](\.[^'"]+)['"]/g

/** Rewrites the modules below `folder`, which no module reaches by an address of its own. @param root has all modules */
export async function mergeModules(root: string, folder: string): Promise<void> {
  const isInside = (file: string) => file.startsWith(`${folder}/`)
  const modules = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.js'))
    .map((name) => join(root, name))
  const entries = modules
    .filter((file) => !isInside(file))
    .flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(IMPORTED)].map(([, path]) =>
        resolve(dirname(file), path!),
      ),
    )
    .filter(isInside)
  const bundle = await rolldown({
    input: Object.fromEntries(
      entries.map((file) => [relative(folder, file).replace(/\.js$/, ''), file]),
    ),
    plugins: [
      {
        name: 'inside',
        resolveId(id, from) {
          if (from === undefined) return undefined
          if (!id.startsWith('.')) return { id, external: true }
          const file = resolve(dirname(from), id)
          return isInside(file) ? file : { id: file, external: true }
        },
      },
    ],
  })
  const { output } = await bundle.write({
    dir: folder,
    entryFileNames: '[name].js',
    chunkFileNames: 'shared-[name].js',
  })
  await bundle.close()
  const written = new Set(output.map(({ fileName }) => join(folder, fileName)))
  for (const file of modules) if (isInside(file) && !written.has(file)) rmSync(file)
}

/** The files of the console for a browser: read once, named by a hash of their contents, compressed once. */
import { readdir, readFile } from 'node:fs/promises'
import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A library of the console: its name in imports, and the paths of its file and its license in its package. */
interface Library {
  readonly name: string
  /** Path below `vendor/`. */
  readonly file: string
  /** Path relative to the resolved file of the package. */
  readonly source: string
  /** Text that is appended where the browser's file is no module. */
  readonly footer?: string
}

export const LIBRARIES: readonly Library[] = [
  { name: 'preact', file: 'preact.js', source: 'preact.mjs' },
  { name: 'preact/hooks', file: 'preact-hooks.js', source: 'hooks.mjs' },
  { name: '@preact/signals-core', file: 'signals-core.js', source: 'signals-core.mjs' },
  { name: '@preact/signals', file: 'signals.js', source: 'signals.mjs' },
  { name: 'htm', file: 'htm.js', source: 'htm.mjs' },
  // The module of this package is not minified, and three times as large.
  {
    name: 'uplot',
    file: 'uplot.js',
    source: 'uPlot.iife.min.js',
    footer: 'export default uPlot\n',
  },
  { name: 'markdown-it', file: 'markdown-it.js', source: 'browser/markdown-it.esm.min.mjs' },
]

/** The libraries with their licenses and styles. @throws Error when one is not installed */
export async function libraryFiles(): Promise<[path: string, text: string][]> {
  const files = LIBRARIES.map(
    async ({ name, file, source, footer = '' }): Promise<[string, string]> => {
      const folder = dirname(fileURLToPath(import.meta.resolve(name)))
      const text = await readFile(join(folder, source), 'utf8')
      // Maps are not served, and a browser's tools would ask for them.
      return [`vendor/${file}`, text.replace(/\/\/# sourceMappingURL=.*$/gm, '') + footer]
    },
  )
  const style = fileURLToPath(new URL('uPlot.min.css', import.meta.resolve('uplot')))
  return [
    ...(await Promise.all(files)),
    ['vendor/uplot.css', await readFile(style, 'utf8')],
    ['vendor/LICENSES.txt', await licenses()],
  ]
}

/** Packages that the browser's file of another one has in it. */
const INSIDE = ['entities', 'linkify-it', 'mdurl', 'punycode.js', 'uc.micro']

async function licenses(): Promise<string> {
  const packages = new Set(LIBRARIES.map(({ name }) => name.replace(/(?<!^@[^/]*)\/.*$/, '')))
  const texts = [...packages, ...INSIDE].map(async (name) => {
    const folder = dirname(findPackageJSON(name, import.meta.url)!)
    const file = (await readdir(folder)).find((one) => /^LICENSE/i.test(one))!
    return `${name}\n\n${await readFile(join(folder, file), 'utf8')}`
  })
  return (await Promise.all(texts)).join('\n\n---\n\n')
}

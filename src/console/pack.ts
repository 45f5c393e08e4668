/**
 * Part of a build: bundles the console into `dist/src/console`. One file has what all screens share, libraries
 * included; the others are screens, loaded when they are opened. A checkout serves the sources and does not use this
 * file.
 */
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { build } from 'rolldown'
import { LIBRARIES, libraryFiles } from '../server/console-files.ts'

const SOURCE = import.meta.dirname
const TARGET = join(SOURCE, '../../dist/src/console')
const STYLES = /<link rel="stylesheet" href="\{base\}([^"]+)" \/>\s*/g
/** Marks ids that are no files, by the custom of bundlers. */
const VIRTUAL = '\0'

const libraries = new Map(await libraryFiles())
await build({
  input: join(SOURCE, 'app.ts'),
  plugins: [
    {
      name: 'libraries',
      resolveId(id) {
        const library = LIBRARIES.find(({ name }) => name === id)
        return library && `${VIRTUAL}vendor/${library.file}`
      },
      load: (id) => (id.startsWith(VIRTUAL) ? libraries.get(id.slice(1)) : undefined),
    },
  ],
  output: {
    dir: TARGET,
    cleanDir: true,
    minify: true,
    entryFileNames: '[name].js',
    // One folder deep, as the sources are: `parts/plot.ts` finds its style sheet from there.
    chunkFileNames: 'screens/[name].js',
    codeSplitting: {
      groups: [
        {
          name: 'app',
          // What several screens share is no file of its own.
          test: /console\/(?:parts\/(?!plot|help)|screens\/(?:content|model-prices|outcome|usage-rows)\.|[\w-]+\.ts)|vendor\/(?!uplot|markdown-it)/,
          priority: 1,
        },
        { name: 'play', test: /screens\/(?:me-)?play/ },
      ],
    },
  },
})

const shell = await readFile(join(SOURCE, 'index.html'), 'utf8')
const styles = [...shell.matchAll(STYLES)].map(([, path]) => readFile(join(SOURCE, path!), 'utf8'))
// Removes comments, and replaces several spaces by one.
const css = (await Promise.all(styles)).join('').replace(/\/\*[^]*?\*\//g, '')
await put('style.css', css.replace(/\s+/g, ' '))
// Bundled files name each other by address, so there is no import map.
const style = '<link rel="stylesheet" href="{base}style.css" />'
await put('index.html', shell.replaceAll(STYLES, '').replace('{importmap}', style))
for (const path of ['vendor/uplot.css', 'vendor/LICENSES.txt'])
  await put(path, libraries.get(path)!)
await mkdir(join(TARGET, 'style'))
await copyFile(join(SOURCE, 'style/icon.svg'), join(TARGET, 'style/icon.svg'))

async function put(path: string, text: string): Promise<void> {
  await mkdir(dirname(join(TARGET, path)), { recursive: true })
  await writeFile(join(TARGET, path), text)
}

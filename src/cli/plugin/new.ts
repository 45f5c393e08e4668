/** `plugin new`: writes a plugin to start from. Its templates are the examples of the guides. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { packageVersion } from '../../gateway/version.ts'
import { CommandError, type Arguments } from '../command.ts'

type Files = Map<string, string>

const NAME = /^[a-z][a-z0-9-]{0,40}$/

/** Kinds of plugins, and the styles of each; the first is the default. An example is `<kind>-<style>`. */
const STYLES: Readonly<Record<string, readonly [string, ...string[]]>> = {
  provider: ['sse', 'lines', 'whole', 'tools', 'images'],
  guard: ['check', 'stream', 'remote'],
  search: ['json'],
  sink: ['alerts'],
  payments: ['page'],
}

/** Writes a plugin, its cases and its test. @throws CommandError for a wrong name, or where a file exists */
export async function newPlugin({ positionals, text, on }: Arguments): Promise<void> {
  const [kind = '', name = ''] = positionals
  const styles = STYLES[kind]
  if (!styles) {
    const kinds = Object.keys(STYLES).join(', ')
    throw new CommandError(
      `There is no kind of plugin ${JSON.stringify(kind)}; there are ${kinds}.`,
      2,
    )
  }
  if (!NAME.test(name)) {
    const expected = 'lower-case letters, digits and hyphens, such as "acme"'
    throw new CommandError(
      `A plugin cannot be called ${JSON.stringify(name)}: expected ${expected}.`,
      2,
    )
  }
  const { style = styles[0] } = text
  if (!styles.includes(style)) {
    throw new CommandError(`--style of a ${kind} is one of ${styles.join(', ')}.`, 2)
  }
  const parts = await partsOf(kind, name, style)
  const folder = resolve(text.dir ?? '.')
  const isPackage = on.has('package')
  const extension = `${isCommonJs(folder) ? 'm' : ''}${on.has('js') ? 'js' : 'ts'}`
  const files = isPackage
    ? packageFiles(kind, name, parts, on.has('js'))
    : plainFiles(name, parts, extension)
  await writeAll(folder, files)
  const use = isPackage ? name : `./${name}.${extension}`
  const listed = [...files.keys()].map((path) => `  ${relative('.', join(folder, path))}\n`)
  process.stdout.write(
    `Written:\n${listed.join('')}\n${nextSteps(kind, name, files)}\n` +
      `In gateway.config.yaml:\n\n${parts.yaml(use)}`,
  )
}

interface Parts {
  readonly code: string
  readonly cases: Files
  readonly yaml: (use: string) => string
}

async function partsOf(kind: string, name: string, style: string): Promise<Parts> {
  const folder = join(examplesFolder(), `${kind}-${style === 'lines' ? 'sse' : style}`)
  const example = `my-${kind}`
  const upper = (text: string) => text.toUpperCase().replaceAll('-', '_')
  const own = (text: string) =>
    text.replaceAll(example, name).replaceAll(upper(example), upper(name))
  const read = async (path: string) => own(await readFile(join(folder, path), 'utf8'))
  const code = await read(`${example}.ts`)
  const cases: Files = new Map()
  const paths = await readdir(join(folder, `${example}.cases`)).catch(() => [])
  for (const path of paths.toSorted()) cases.set(path, await read(`${example}.cases/${path}`))
  const [, configuration = ''] = /^```yaml\n([^]*?)^```$/m.exec(await read('README.md')) ?? []
  const yaml = (use: string) => configuration.replace(`./${name}.ts`, use)
  const parts = { code, cases, yaml }
  return style === 'lines' ? inLines(parts) : parts
}

/** The example for server-sent events, for a vendor that sends lines. */
function inLines({ code, cases, yaml }: Parts): Parts {
  const toLines = (text: string) =>
    text
      .replace('text/event-stream', 'application/x-ndjson')
      .replaceAll(/^data: (.*)\n\n?/gm, '$1\n')
  return {
    code: code.replace('host.sse(', 'host.lines(').replace('events', 'lines'),
    cases: new Map([...cases].map(([path, text]) => [path, toLines(text)])),
    yaml,
  }
}

function plainFiles(name: string, { code, cases }: Parts, extension: string): Files {
  const file = `${name}.${extension}`
  return new Map([
    [file, extension.endsWith('js') ? toJavaScript(code) : code],
    ...[...cases].map(([path, text]) => [`${name}.cases/${path}`, text] as const),
    [`${name}.test.${extension}`, testOf(name, `./${file}`)],
  ])
}

function packageFiles(kind: string, name: string, parts: Parts, js: boolean): Files {
  const { code, cases, yaml } = parts
  const folder = `sluicegate-${kind}-${name}`
  const built = js ? `src/${name}.js` : `dist/${name}.js`
  const at = (path: string) => `${folder}/${path}`
  return new Map([
    [at('package.json'), manifestOf(kind, name, built, js)],
    ...(js ? [] : [[at('tsconfig.json'), TSCONFIG] as const]),
    [at('README.md'), readmeOf(kind, name, yaml(name))],
    [at('.gitignore'), 'node_modules/\ndist/\n'],
    [at('.github/workflows/test.yml'), WORKFLOW],
    [at(`src/${name}.${js ? 'js' : 'ts'}`), js ? toJavaScript(code) : code],
    ...[...cases].map(([path, text]) => [at(`cases/${path}`), text] as const),
    [at(`test/${name}.test.js`), testOf(name, `../${built}`, '../cases')],
  ])
}

function testOf(name: string, path: string, cases?: string): string {
  const options = cases ? `, { cases: '${cases}' }` : ''
  return `import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testPlugin } from 'sluicegate/testing'

test('${name} passes its kit', async () => {
  const { failed } = await testPlugin(import.meta.resolve('${path}')${options})
  assert.deepEqual(failed, [])
})
`
}

function manifestOf(kind: string, name: string, built: string, js: boolean): string {
  const version = packageVersion()
  const build = js ? '' : 'npm run build && '
  return `${JSON.stringify(
    {
      name: `sluicegate-${kind}-${name}`,
      version: '0.1.0',
      description: `A ${kind} plugin for Sluicegate`,
      keywords: ['sluicegate-plugin'],
      license: 'MIT',
      type: 'module',
      exports: `./${built}`,
      files: [dirname(built), 'README.md'],
      scripts: {
        ...(js ? {} : { build: 'tsc', prepack: 'npm run build' }),
        test: `${build}node --test test/*.test.js`,
      },
      dependencies: { valibot: '^1.5.0' },
      devDependencies: { sluicegate: `^${version}`, ...(js ? {} : { typescript: '^7.0.2' }) },
      peerDependencies: { sluicegate: `>=${version} <2` },
      peerDependenciesMeta: { sluicegate: { optional: true } },
    },
    null,
    2,
  )}\n`
}

const TSCONFIG = `${JSON.stringify(
  {
    compilerOptions: {
      target: 'es2024',
      module: 'nodenext',
      strict: true,
      declaration: true,
      skipLibCheck: true,
      types: [],
      rootDir: 'src',
      outDir: 'dist',
    },
    include: ['src'],
  },
  null,
  2,
)}\n`

const WORKFLOW = `on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with: { node-version: 24 }
      - run: npm install
      - run: npm test
`

function readmeOf(kind: string, name: string, yaml: string): string {
  const title = `sluicegate-${kind}-${name}`
  return `# ${title}

A ${kind} plugin for [Sluicegate](https://www.npmjs.com/package/sluicegate). Install it in the folder of the configuration:

\`\`\`sh
npm install ${title}
\`\`\`

\`\`\`yaml
${yaml}\`\`\`

\`npm test\` runs its kit. \`sluicegate plugin show ./${title} --markdown\` prints its options for this page.
`
}

async function writeAll(folder: string, files: Files): Promise<void> {
  const there = [...files.keys()].find((path) => existsSync(join(folder, path)))
  if (there) throw new CommandError(`${join(folder, there)} exists, and is not overwritten.`)
  for (const [path, text] of files) {
    const file = join(folder, path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, text)
  }
}

function nextSteps(kind: string, name: string, files: Files): string {
  const [first] = files.keys()
  return first?.endsWith('package.json')
    ? `Next: cd sluicegate-${kind}-${name} && npm install && npm test\n`
    : `Next: sluicegate plugin test ./${first}\n`
}

/** JavaScript of TypeScript that can be erased, without the gaps that types leave. */
function toJavaScript(code: string): string {
  return stripTypeScriptTypes(code)
    .replaceAll(/, {2,}\}/g, ' }')
    .replaceAll(/(\S) {2,}(?=\S)/g, '$1 ')
    .replaceAll(/(?<=\S) (?=\))/g, '')
    .replaceAll(/ +$/gm, '')
}

/** Whether Node.js takes files of this folder for CommonJS, as `npm init` arranges it. */
function isCommonJs(folder: string): boolean {
  const manifest = join(folder, 'package.json')
  if (existsSync(manifest)) return JSON.parse(readFileSync(manifest, 'utf8')).type === 'commonjs'
  return dirname(folder) !== folder && isCommonJs(dirname(folder))
}

/** The folder is two levels further up in a build. */
function examplesFolder(): string {
  const folder = ['../../../', '../../../../']
    .map((up) => new URL(`${up}docs/examples/`, import.meta.url).pathname)
    .find((path) => existsSync(path))
  if (!folder)
    throw new CommandError('The templates in docs/examples are missing: install the package again.')
  return folder
}

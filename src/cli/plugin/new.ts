/** `plugin new`: writes a plugin to start from. Its templates are the examples of the guides. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { packageVersion } from '../../gateway/version.ts'
import { CommandError, type Arguments } from '../command.ts'

/** A plugin to start from. */
interface Template {
  /** Name of the example. */
  readonly name: string
  /** How a configuration uses it. */
  readonly yaml: (name: string, use: string) => string
}

type Files = Map<string, string>

const NAME = /^[a-z][a-z0-9-]{0,40}$/
const STYLES = ['sse', 'lines', 'whole']

const TEMPLATES: Readonly<Record<string, Template>> = {
  provider: { name: 'my-provider', yaml: providerYaml },
  guard: { name: 'my-check', yaml: guardYaml },
  search: { name: 'my-search', yaml: searchYaml },
  sink: { name: 'my-sink', yaml: sinkYaml },
}

/** Writes a plugin, its cases and its test. @throws CommandError for a wrong name, or where a file exists */
export async function newPlugin({ positionals, text, on }: Arguments): Promise<void> {
  const [kind = '', name = ''] = positionals
  const template = TEMPLATES[kind]
  if (!template) {
    const kinds = Object.keys(TEMPLATES).join(', ')
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
  const { style = 'sse' } = text
  if (!STYLES.includes(style) || (text.style !== undefined && kind !== 'provider')) {
    throw new CommandError(`--style is one of ${STYLES.join(', ')}, for a provider.`, 2)
  }
  const parts = await partsOf(template, name, style)
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
      `In gateway.config.yaml:\n\n${template.yaml(name, use)}`,
  )
}

/** The code of a template, and its cases by name. */
interface Parts {
  readonly code: string
  readonly cases: Files
}

/** The example under another name. */
async function partsOf({ name: example }: Template, name: string, style: string): Promise<Parts> {
  const folder = examplesFolder()
  const file = style === 'whole' ? `${example}-whole` : example
  const own = (text: string) => text.replaceAll(file, name).replaceAll(example, name)
  const code = own(await readFile(join(folder, `${file}.ts`), 'utf8'))
  const cases: Files = new Map()
  for (const path of (await readdir(join(folder, `${file}.cases`))).toSorted()) {
    cases.set(path, own(await readFile(join(folder, `${file}.cases`, path), 'utf8')))
  }
  return style === 'lines' ? inLines({ code, cases }) : { code, cases }
}

/** The example for server-sent events, for a vendor that sends lines. */
function inLines({ code, cases }: Parts): Parts {
  const toLines = (text: string) =>
    text
      .replace('text/event-stream', 'application/x-ndjson')
      .replaceAll(/^data: (.*)\n\n?/gm, '$1\n')
  return {
    code: code.replace('host.sse(', 'host.lines(').replace('events', 'lines'),
    cases: new Map([...cases].map(([path, text]) => [path, toLines(text)])),
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

function packageFiles(kind: string, name: string, { code, cases }: Parts, js: boolean): Files {
  const folder = `sluicegate-${kind}-${name}`
  const built = js ? `src/${name}.js` : `dist/${name}.js`
  const at = (path: string) => `${folder}/${path}`
  return new Map([
    [at('package.json'), manifestOf(kind, name, built, js)],
    ...(js ? [] : [[at('tsconfig.json'), TSCONFIG] as const]),
    [at('README.md'), readmeOf(kind, name)],
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

function readmeOf(kind: string, name: string): string {
  const title = `sluicegate-${kind}-${name}`
  return `# ${title}

A ${kind} plugin for [Sluicegate](https://www.npmjs.com/package/sluicegate). Install it in the folder of the configuration:

\`\`\`sh
npm install ${title}
\`\`\`

\`\`\`yaml
${TEMPLATES[kind]!.yaml(name, name)}\`\`\`

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

/** Whether Node.js takes files of this folder for CommonJS, as `npm init` arranges it, unless their names say otherwise. */
function isCommonJs(folder: string): boolean {
  const manifest = join(folder, 'package.json')
  if (existsSync(manifest)) return JSON.parse(readFileSync(manifest, 'utf8')).type === 'commonjs'
  return dirname(folder) !== folder && isCommonJs(dirname(folder))
}

/** Two levels further up in a build. */
function examplesFolder(): string {
  const found = ['../../../', '../../../../']
    .map((up) => new URL(`${up}docs/examples/`, import.meta.url).pathname)
    .find((path) => existsSync(path))
  if (!found) throw new CommandError('The templates in docs/examples are missing.')
  return found
}

function providerYaml(name: string, use: string): string {
  const variable = `${name.toUpperCase().replaceAll('-', '_')}_KEY`
  return `providers:
  ${name}:
    use: ${use}
    options: { url: 'https://vendor.example/generate', apiKey: '\${${variable}}' }
models:
  ${name}/small:
    pricing: { prompt: '0.000001', completion: '0.000002' }
    capabilities: [STREAMING]
    deployments: [{ provider: ${name}, model: small-1 }]
`
}

function guardYaml(_name: string, use: string): string {
  return `guards:
  use:
    - use: ${use}
      options: { prefix: TICKET }
      applies: always
`
}

function searchYaml(name: string, use: string): string {
  return `search:
  engines:
    ${name}:
      use: ${use}
      options: { url: 'https://search.example' }
      price: '0.002'
`
}

function sinkYaml(_name: string, use: string): string {
  return `sinks:
  - { use: ${use}, options: { url: 'https://receiver.example' } }
`
}

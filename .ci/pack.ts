/**
 * Readies `dist` for the package, after the build: few files, no declarations that users do not import, no modules of types
 * alone, and the list of what is inside.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { keepDeclarations } from './declarations.ts'
import { deadLinks, shippedFiles } from './links.ts'
import { mergeModules } from './merge-modules.ts'

const ROOT = resolve(import.meta.dirname, '..')
const DIST = join(ROOT, 'dist')
const ENTRIES = ['src/index.d.ts', 'src/plugin.d.ts', 'src/testing.d.ts']
/** Folders whose modules nothing reaches by an address. */
const MERGED = [
  'src/accounts',
  'src/cli/archive',
  'src/cli/import',
  'src/endpoints',
  'src/guard',
  'src/models',
  'src/patterns',
  'src/pipeline',
  'src/server/admin',
  'src/state/ledger',
  'src/state/redis',
  'src/testing/checks',
  'src/testing/conversations',
  'plugins/guards/judge',
  'plugins/guards/pii',
  'plugins/import/litellm',
  'providers/anthropic',
  'providers/bedrock',
  'providers/google',
  'providers/mock',
  'providers/openai-compatible',
  'providers/openai-responses',
]
const IMPORTED = /(?:from|import)\s*\(?\s*['"](\.[^'"]+)\.[jt]s['"]/g

keepDeclarations(DIST, ENTRIES)
for (const folder of MERGED) await mergeModules(DIST, join(DIST, folder))
removeEmptyModules()
const dead = deadLinks(ROOT, shippedFiles(ROOT))
if (dead.length > 0)
  throw new Error(`the package has links to what it does not ship:\n${dead.join('\n')}`)
writeFileSync(join(ROOT, 'sbom.json'), `${JSON.stringify(materials())}\n`)

/** Removes modules of types alone, which nothing imports once it is compiled. */
function removeEmptyModules(): void {
  const names = readdirSync(DIST, { recursive: true, encoding: 'utf8' })
  const texts = new Map(
    names.flatMap((name) => {
      const file = join(DIST, name)
      return name.endsWith('.js') ? [[file, readFileSync(file, 'utf8')]] : []
    }),
  )
  const imported = new Set(
    [...texts].flatMap(([file, text]) =>
      [...text.matchAll(IMPORTED)].map(([, path]) => join(dirname(file), `${path}.js`)),
    ),
  )
  for (const [file, text] of texts) {
    if (text.trim() === 'export {};' && !imported.has(file)) rmSync(file)
  }
}

/**
 * The bill of materials in CycloneDX, without what differs from one run to the next. npm leaves packages out that
 * development needs too, so it gets a project without development.
 */
function materials(): object {
  const folder = mkdtempSync(join(tmpdir(), 'sluicegate-sbom-'))
  try {
    const manifest = withoutDevelopment(read('package.json'))
    const lock = read('package-lock.json')
    const packages = Object.entries<any>(lock.packages).flatMap(([path, entry]) => {
      const { dev, devOptional, optional, peer } = entry
      if (dev || devOptional || optional || peer) return []
      return [[path, path === '' ? withoutDevelopment(entry) : entry]]
    })
    const locked = { ...lock, packages: Object.fromEntries(packages) }
    writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
    writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(locked))
    const args = ['sbom', '--package-lock-only', '--sbom-format', 'cyclonedx']
    const text = execFileSync('npm', args, { cwd: folder, encoding: 'utf8' })
    const { serialNumber: _number, metadata, ...bill } = JSON.parse(text)
    const { timestamp: _time, tools: _tools, component, ...known } = metadata
    return { ...bill, metadata: { ...known, component: { ...component, name: manifest.name } } }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function read(name: string): any {
  return JSON.parse(readFileSync(join(ROOT, name), 'utf8'))
}

/** A manifest with what every user gets. */
function withoutDevelopment(manifest: any): any {
  return { ...manifest, devDependencies: {}, peerDependencies: {}, peerDependenciesMeta: {} }
}

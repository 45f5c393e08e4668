/** Readies `dist` for the package, after the build: only the declarations that users import, and the list of what is inside. */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

const ROOT = resolve(import.meta.dirname, '..')
const DIST = join(ROOT, 'dist')
const ENTRIES = ['src/index.d.ts', 'src/plugin.d.ts', 'src/testing.d.ts']
const IMPORTED = /(?:from|import)\s*\(?\s*['"](\.[^'"]+)\.[jt]s['"]/g

keepDeclarations()
writeFileSync(join(ROOT, 'sbom.json'), `${JSON.stringify(materials(), null, 2)}\n`)

/** Removes the declarations that no entry of the package reaches. */
function keepDeclarations(): void {
  const reached = new Set<string>()
  const visit = (file: string) => {
    if (reached.has(file) || !existsSync(file)) return
    reached.add(file)
    for (const [, path] of readFileSync(file, 'utf8').matchAll(IMPORTED)) {
      visit(join(dirname(file), `${path}.d.ts`))
    }
  }
  for (const entry of ENTRIES) visit(join(DIST, entry))
  for (const name of readdirSync(DIST, { recursive: true, encoding: 'utf8' })) {
    const file = join(DIST, name)
    if (name.endsWith('.d.ts') && !reached.has(file)) rmSync(file)
  }
}

/** The bill of materials in CycloneDX, without what differs from one run to the next. */
function materials(): object {
  const args = ['sbom', '--package-lock-only', '--omit=dev', '--omit=optional', '--omit=peer']
  const text = execFileSync('npm', [...args, '--sbom-format', 'cyclonedx'], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const { serialNumber: _number, metadata, ...bill } = JSON.parse(text)
  const { timestamp: _time, tools: _tools, ...known } = metadata
  return { ...bill, metadata: known }
}

/**
 * `node test/foreign/open-responses.ts <folder>`: the compliance suite of Open Responses, which no registry has, from a folder in
 * which it and its packages are installed. Bundled, because it is written for another runtime.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { rolldown } from 'rolldown'
import { Ring, type Place } from './kit.ts'

interface Result {
  readonly id: string
  readonly status: string
  readonly errors?: readonly string[]
}

const [folder] = process.argv.slice(2)
if (folder === undefined) {
  process.stderr.write(
    'Say the folder of the suite: node test/foreign/open-responses.ts <folder>\n',
  )
  process.exit(1)
}
const home = mkdtempSync(join(tmpdir(), 'open-responses-'))
const file = join(home, 'suite.mjs')
const bundle = await rolldown({
  input: join(resolve(folder), 'bin/compliance-test.ts'),
  platform: 'node',
})
await bundle.write({ file, format: 'esm', codeSplitting: false })
await bundle.close()

/** Runs the whole suite. A failed test is no failure of the run. */
function run({ baseURL, key }: Place, model: string): Promise<readonly Result[]> {
  const args = [file, '--base-url', baseURL, '--api-key', key, '--model', model, '--json']
  return new Promise((found, failed) => {
    execFile(process.execPath, args, { maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      try {
        found(JSON.parse(stdout).results)
      } catch {
        failed(error ?? new Error(stderr))
      }
    })
  })
}

const ring = new Ring()
for (const model of ['m/chat', 'm/claude', 'm/responses']) {
  let results: readonly Result[] = []
  await ring.run(`open-responses ${model}`, async (place) => {
    results = await run(place, model)
  })
  for (const { id, status, errors = [] } of results) {
    if (status === 'skipped') continue
    await ring.run(`open-responses ${model} ${id}`, async () => {
      if (status !== 'passed') throw new Error(errors.join('; '))
    })
  }
}
rmSync(home, { recursive: true })
await ring.end()

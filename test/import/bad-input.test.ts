/** Configurations that are too much, or not what they should be: a sentence, nothing half written, no secret shown. */
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'

const SECRET = 'sk-very-secret-0123456789'

async function importing(config: string, ...options: string[]) {
  const cwd = await folder({ 'config.yaml': config })
  const said = await call(['import', 'litellm', '--config', 'config.yaml', ...options], { cwd })
  return { cwd, ...said }
}

describe('a LiteLLM configuration', () => {
  it('with anchors is read as YAML means them', async () => {
    const { out } = await importing(
      `x: &common
  api_key: ${SECRET}
  input_cost_per_token: "1e-6"
  output_cost_per_token: "2e-6"
model_list:
  - { model_name: a, litellm_params: { <<: *common, model: openai/a } }
  - { model_name: b, litellm_params: { <<: *common, model: openai/b, api_key: os.environ/B } }
`,
    )
    expect(out).toMatch(/^2 of 2 models served\n/)
    expect(out).not.toContain(SECRET)
  })

  it.each([
    ['that repeat billions of values', bomb(), /more than 1000000 values/],
    ['that contain themselves', 'model_list: &a [*a]\n', /nested deeper than 64 levels/],
    ['that are not there', `model_list:\n  - { api_key: *${SECRET} }\n`, /not YAML.+line 2/],
    ['beside a tag', `model_list:\n  - { api_key: !${SECRET} x }\n`, /not YAML.+line 2/],
    ['with a key twice', `a: 1\n${SECRET}: 1\n${SECRET}: 2\n`, /not YAML.+line 3/],
    ['cut off', `model_list:\n  - { api_key: "${SECRET}`, /not YAML/],
  ])('with anchors or words %s is refused in one sentence', async (_, config, message) => {
    const { cwd, code, out, err } = await importing(config, '--out', 'gateway')
    expect([code, out]).toEqual([1, ''])
    expect(err).toMatch(message)
    expect(err.trim().split('\n')).toHaveLength(1)
    expect(err).toMatch(/Nothing was written\.$/m)
    expect(err).not.toContain(SECRET)
    expect(await readdir(cwd)).toEqual(['config.yaml'])
  })

  it('with secrets everywhere shows none of them, and has them in .env alone', async () => {
    const places = [
      `model_list:
  - { model_name: a, litellm_params: { model: openai/a, api_key: ${SECRET}-1 } }
  - { model_name: b, litellm_params: { model: openai/b, api_base: "https://u:${SECRET}-2@x.example/v1" } }
  - { model_name: c, litellm_params: { model: groq/c, extra_headers: { x-key: ${SECRET}-3 } } }
  - { model_name: d, litellm_params: { model: petals/d, api_key: ${SECRET}-4, unheard: ${SECRET}-5 } }
  - { model_name: e, litellm_params: { model: vertex_ai/e, vertex_credentials: '{"private_key":"${SECRET}-6"}' } }
  - { model_name: f, litellm_params: { model: bedrock/f, aws_secret_access_key: ${SECRET}-7, aws_access_key_id: AKIA } }
general_settings: { master_key: ${SECRET}-8, database_url: "postgresql://u:${SECRET}-9@db/x" }
litellm_settings: { cache_params: { password: ${SECRET}-10 }, unheard: ${SECRET}-11 }
router_settings: { redis_password: ${SECRET}-12 }
environment_variables: { ANY: ${SECRET}-13 }
`,
    ]
    for (const options of [['--all'], ['--json']]) {
      const { cwd, out, err } = await importing(places.join(''), '--out', 'gateway', ...options)
      expect(out + err).not.toContain(SECRET)
      const written = join(cwd, 'gateway')
      for (const name of await readdir(written)) {
        if (name === '.env') continue
        expect(await readFile(join(written, name), 'utf8'), name).not.toContain(SECRET)
      }
      expect(await readFile(join(written, '.env'), 'utf8')).toContain(`${SECRET}-1`)
    }
  })

  it('of 400 models, of vendors that nobody knows, is told in few lines', async () => {
    const models = Array.from({ length: 400 }, (_, n) => {
      const model = n % 4 === 0 ? `cloud${n % 3}/m${n}` : `openai/m${n}`
      const price = n % 4 === 1 ? {} : { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 }
      return { model_name: `m${n}`, litellm_params: { model, tpm: 5, ...price } }
    })
    const started = performance.now()
    const { cwd, code, out } = await importing(
      JSON.stringify({ model_list: models }),
      '--out',
      'gateway',
    )
    expect(code).toBe(3)
    const [first] = out.split('\n')
    expect(first).toBe('200 of 400 models served, 200 not (100 disabled, 100 no price)')
    const notes = out.slice(0, out.indexOf('\nMODEL '))
    expect(notes.split('\n').length).toBeLessThan(20)
    expect(notes).toContain('the vendor "cloud0" is not known here')
    expect(notes).toMatch(/and 97 more: not served/)
    expect(performance.now() - started).toBeLessThan(10_000)
    const env = { OPENAI_API_KEY: 'x' }
    const checked = await call(['check'], { cwd: join(cwd, 'gateway'), env })
    expect([checked.code, checked.out.split('\n')[0]]).toEqual([1, first])
  }, 30_000)

  it('leaves a configuration that is there as it is', async () => {
    const running = await folder({
      'gateway.config.yaml': 'extends: starter\n',
      'c.yaml': `model_list: [{ model_name: a, litellm_params: { model: openai/a, api_key: ${SECRET} } }]`,
    })
    const command = ['import', 'litellm', '--config', 'c.yaml', '--out', '.']
    const { code, err } = await call(command, { cwd: running })
    expect([code, err]).toEqual([
      1,
      'Nothing was written: gateway.config.yaml exists already; choose another folder.\n',
    ])
    expect((await readdir(running)).toSorted()).toEqual(['c.yaml', 'gateway.config.yaml'])
    expect(await readFile(join(running, 'gateway.config.yaml'), 'utf8')).toBe('extends: starter\n')
  })

  it('writes nothing where the gateway that gets the keys does not answer', async () => {
    const cwd = await folder({
      'c.yaml': 'model_list: []\n',
      'tables/k.csv': `token\n${'ab'.repeat(32)}\n`,
    })
    const where = ['--url', 'http://127.0.0.1:9', '--token', 'x', '--apply']
    const command = ['import', 'litellm', '--config', 'c.yaml', '--tables', 'tables', ...where]
    const { code, out } = await call([...command, '--out', 'gateway'], { cwd })
    expect([code, out]).toEqual([1, ''])
    expect((await readdir(cwd)).toSorted()).toEqual(['c.yaml', 'tables'])
  })

  it('tells which table a file is not', async () => {
    const cwd = await folder({ 'c.yaml': 'model_list: []\n', 'tables/a.csv': 'colour\nred\n' })
    const command = ['import', 'litellm', '--config', 'c.yaml', '--tables', 'tables']
    const wrong = await call(command, { cwd })
    expect([wrong.code, wrong.out]).toEqual([1, ''])
    expect(wrong.err).toMatch(/^tables\/a\.csv: its columns are those of no table: keys \(token\)/)
    await writeFile(join(cwd, 'tables/a.csv'), `token\n${SECRET}\n`)
    await writeFile(join(cwd, 'tables/b.json'), `[{"token":"${SECRET}"}]`)
    const twice = await call(command, { cwd })
    expect(twice.err).toBe(
      'tables/b.json: it has the table keys, as tables/a.csv has. Nothing was written.\n',
    )
    const none = await call([...command.slice(0, -1), 'nowhere'], { cwd })
    expect(none.err).toContain('nowhere cannot be imported')
  })
})

/** Nine anchors, each of nine times the one before. */
function bomb(): string {
  const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
  for (let n = 1; n < 9; n++) {
    lines.push(`a${n}: &a${n} [${Array.from({ length: 9 }, () => `*a${n - 1}`).join(', ')}]`)
  }
  return `${lines.join('\n')}\nmodel_list: []\n`
}

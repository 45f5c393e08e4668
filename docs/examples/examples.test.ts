/** Every folder is a whole plugin: it passes its kit, and a gateway starts with what its page shows. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseYAML } from 'confbox'
import { describe, expect, it } from 'vitest'
import {
  checkGuard,
  readGuardCases,
  readPaymentsCases,
  readSearchCases,
  readSinkCases,
  readTranscripts,
  testPayments,
  testProvider,
  testSearch,
  testSink,
} from 'sluicegate/testing'
import { createTestGateway } from '../../test/_setup.ts'
import { json, startUpstream } from '../../test/upstream.ts'

const here = import.meta.dirname
const folders = readdirSync(here, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

/** The kit of a kind, for the plugin and the cases of a folder. */
const KITS: Readonly<Record<string, (file: string, cases: string) => Promise<any>>> = {
  provider: async (provider, cases) => {
    const transcripts = await readTranscripts(cases).catch(() => [])
    return testProvider({ provider, directory: here, transcripts })
  },
  guard: async (file, cases) => checkGuard(await pluginOf(file), await readGuardCases(cases)),
  search: async (file, cases) =>
    testSearch(await pluginOf(file), { cases: await readSearchCases(cases) }),
  sink: async (file, cases) =>
    testSink(await pluginOf(file), { cases: await readSinkCases(cases) }),
  payments: async (file, folder) => {
    const cases = await readPaymentsCases(folder)
    const { default: sign } = await import(join(folder, 'sign.ts'))
    return testPayments(await pluginOf(file), { cases, sign })
  },
}

describe.each(folders)('%s', (folder) => {
  const [kind = ''] = folder.split('-')

  it('passes its kit', async () => {
    const { name, failed } = await KITS[kind]!(
      `./${folder}/my-${kind}.ts`,
      join(here, folder, `my-${kind}.cases`),
    )
    expect([name, failed]).toEqual([`my-${kind}`, []])
  })

  it('starts', async () => {
    const text = readFileSync(join(here, folder, 'README.md'), 'utf8')
    const [, yaml = ''] = /^```yaml\n([^]*?)^```$/m.exec(text) ?? []
    const shown = yaml
      .replaceAll('./my-', `../docs/examples/${folder}/my-`)
      .replaceAll(/\$\{\w+\}/g, 'secret-of-the-test')
    await using gateway = await createTestGateway(parseYAML(shown))
    expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200)
  })
})

it('provider-images makes images', async () => {
  const image = Buffer.from('an image').toString('base64')
  await using vendor = await startUpstream(json({ images: [image, image] }))
  await using gateway = await createTestGateway({
    providers: {
      mine: {
        use: '../docs/examples/provider-images/my-provider.ts',
        options: { url: vendor.url, apiKey: 'key' },
      },
    },
    models: {
      'mine/painter': {
        modality: 'image',
        pricing: { image: '0.04' },
        deployments: [{ provider: 'mine', model: 'painter-1' }],
      },
    },
  })
  const asked = { model: 'mine/painter', prompt: 'A lake.', n: 2 }
  const { json: answer } = await gateway.ask('POST', '/v1/images/generations', { body: asked })
  expect(answer.data.map((one: any) => one.b64_json)).toEqual([image, image])
  expect(answer.usage.cost).toBe(0.08)
  expect(vendor.requests[0]!.json).toEqual({ model: 'painter-1', prompt: 'A lake.', count: 2 })
})

async function pluginOf(file: string): Promise<any> {
  return (await import(join(here, file))).default
}

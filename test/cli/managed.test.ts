/** Vendors and models that are set up by the command line, on a gateway that was started in an empty folder. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { call, start, urlOf } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { send } from '../_setup.ts'
import { kept, model, PLANTED, provider, TOKEN, vendor } from '../gateway/_managed.ts'

describe('from an empty folder', () => {
  it('a vendor with its key and two models are added, tested, and answer', async () => {
    const upstream = await vendor()
    const cwd = await folder({})
    const key = `sk-sluice-${'0'.repeat(40)}`
    const running = await start(['serve', '--port', '0', '--print-key'], { cwd })
    const url = await urlOf(running)
    const secret = /sk-sluice-\w+/.exec(running.said())?.[0] ?? key
    const env = { ACME_KEY: PLANTED }
    const sluicegate = (...args: string[]) => call([...args, '--url', url], { cwd, env })
    const added = await sluicegate(
      'providers',
      'add',
      'acme',
      '--use=openai-compatible',
      `--set=baseURL=${upstream.url}/v1`,
      '--secret=apiKey=env:ACME_KEY',
    )
    expect(added).toEqual({ code: 0, out: 'Revision 1 is in force.\n', err: '' })
    const prices = ['--price', 'prompt=0.000001', '--price', 'completion=0.000002']
    for (const name of ['acme/one', 'acme/two']) {
      expect((await sluicegate('models', 'add', name, ...prices)).out).toContain(`added: ${name}\n`)
    }
    expect((await sluicegate('providers', 'test', 'acme')).out).toMatch(
      /^Provider acme answered after \d+ ms: \d+ models\.\n$/,
    )
    expect((await sluicegate('models', 'test', 'acme/one')).out).toMatch(/^cost_usd +0\.000005\n/m)
    expect((await sluicegate('providers', 'offers', 'acme')).out).toContain('acme/two')
    const body = JSON.stringify({ model: 'acme/two', messages: [{ role: 'user', content: 'hi' }] })
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
    const answer = await send(`${url}/v1/chat/completions`, 'POST', body, headers)
    expect(answer.json.choices[0].message.content).toBe('hello')
    expect(await readdir(cwd)).toEqual(['data'])
    expect((await readdir(join(cwd, 'data'))).includes('secret')).toBe(true)
    expect(running.said()).not.toContain(PLANTED)
  })
})

describe('the commands', () => {
  it('show, change, export, list and revert, and tell what is wrong', async () => {
    const upstream = await vendor()
    const gateway = await kept()
    const run = (...args: string[]) => call([...args, '--url', gateway.url, '--token', TOKEN])
    await gateway.change(provider(upstream.url), model())
    expect((await run('providers', 'list')).out).toMatch(/^acme +openai-compatible +.* in force$/m)
    expect((await run('providers', 'show', 'acme')).out).toContain('apiKey set true')
    const moved = await run('providers', 'update', 'acme', '--set', 'baseURL=http://127.0.0.1:9/v1')
    expect(moved).toMatchObject({ code: 1 })
    expect(moved.err).toContain('The address has changed, so the key has to be given again.')
    const plain = await run('providers', 'update', 'acme', '--set', 'apiKey=x')
    expect(plain).toMatchObject({ code: 2 })
    expect(plain.err).toContain('apiKey is a secret: give it by --secret apiKey=-')
    const dry = await run(
      'models',
      'add',
      'acme/two',
      '--price',
      'prompt=0',
      '--price',
      'completion=0',
      '--dry-run',
    )
    expect(dry.out).toBe('This is a dry run: nothing was changed.\nadded: acme/two\n')
    const dearer = await run('models', 'update', 'acme/one', '--price', 'prompt=0.000004')
    expect(dearer.out).toContain('Revision 2 is in force.\nchanged: acme/one\nprice: acme/one')
    const exported = await run('config', 'export')
    expect(exported.err).toBe('Set these variables: ACME_API_KEY\n')
    expect(exported.out).toContain('apiKey: ${ACME_API_KEY}')
    expect((await run('config', 'history')).out.split('\n')).toHaveLength(4)
    expect((await run('config', 'revert', '1')).out).toContain('Revision 3 is in force.')
    expect((await run('secret', 'rotate')).out).toMatch(/^source +file\n/m)
    const used = await run('providers', 'remove', 'acme')
    expect(used.err).toContain('is used by acme/one: remove or move them in the same change')
    expect((await run('models', 'remove', 'acme/one')).out).toContain('removed: acme/one')
    expect((await run('providers', 'remove', 'acme')).code).toBe(0)
    expect((await run('providers', 'show', 'acme')).err).toContain('No provider "acme" is set up')
    const failed = await run(
      'providers',
      'add',
      'acme',
      '--use=openai-compatible',
      '--models=all',
      `--set=baseURL=${upstream.url}/v1`,
      '--secret=apiKey=env:NOT_SET_AT_ALL',
    )
    expect(failed.err).toContain('The secret apiKey cannot be read')
    const mock = await run('providers', 'add', 'toy', '--use', 'mock', '--models', 'none')
    expect(mock.code).toBe(0)
  })
})

/** `plugin dev` and `plugin test --watch` as processes: what an author sees while a plugin is written. */
import { writeFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { call, start } from '../_cli.ts'
import { folder } from '../_folder.ts'

/** A plugin as `plugin new` writes it. */
async function written(kind = 'provider'): Promise<string> {
  const dir = await folder({})
  expect((await call(['plugin', 'new', kind, 'acme', '--dir', dir])).code).toBe(0)
  return dir
}

/** Replaces a text of a file. */
async function edit(file: string, from: string, to: string): Promise<void> {
  const text = await readFile(file, 'utf8')
  expect(text).toContain(from)
  await writeFile(file, text.replace(from, to))
}

it('plugin dev serves each case, shows its calls, and takes over every change with the same key', async () => {
  const cwd = await written()
  const { child, said, ended } = await start(['plugin', 'dev', './acme.ts'], { cwd })
  await expect.poll(said).toMatch(/checks: \d+ ok, 0 failed/)
  const [, url = '', key = ''] = /served at (http\S+) with the key (sk-\S+)/.exec(said())!
  const ask = async () => {
    const response = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'acme/hello', messages: [{ role: 'user', content: 'Hi.' }] }),
    })
    return (await response.json()) as any
  }
  expect((await ask()).choices[0].message.content).toBe('Grüße, 👋!')
  await expect
    .poll(said)
    .toMatch(/acme-hello, chat\n {2}got .*Hi\.[^]*event \{"text":"👋!"\}\n {2}gave /)
  // An error names its place, and what the plugin was handling.
  await edit(join(cwd, 'acme.ts'), 'if (text) emit', 'if (text.length.of) text.no.such; emit')
  await expect.poll(said).toContain('ready again')
  expect((await ask()).error.code).toBe('upstream_error')
  await expect.poll(said).toMatch(/acme\.ts:\d+:\d+\)\n +POST \/ 200\n +event \d: \{"tokens"/)
  await expect.poll(said).toMatch(/FAILED answer, hello/)
  // What cannot be loaded replaces nothing.
  await edit(join(cwd, 'acme.ts'), 'const chunks', 'const chunks const')
  await expect.poll(said).toContain('the code of before goes on')
  expect((await ask()).error.code).toBe('upstream_error')
  await edit(join(cwd, 'acme.ts'), 'const chunks const', 'const chunks')
  await edit(join(cwd, 'acme.ts'), 'if (text.length.of) text.no.such; emit', 'if (text) emit')
  await expect.poll(async () => (await ask()).choices?.[0].message.content).toBe('Grüße, 👋!')
  // What it logs by its host is printed.
  const setUp = /^.*setup\(.*$/m.exec(await readFile(join(cwd, 'acme.ts'), 'utf8'))![0]
  await edit(join(cwd, 'acme.ts'), setUp, `${setUp}\n    host.log.debug('set up', { by: 1 })`)
  await expect.poll(said).toContain('acme-hello logs debug: set up { by: 1 }')
  // A case that was edited is run again.
  await edit(join(cwd, 'acme.cases/hello.http'), 'Grüße', 'Hallo')
  await expect.poll(said).toMatch(/FAILED answer, hello: text: expected "Grüße/)
  child.kill('SIGINT')
  expect((await ended).code).toBe(0)
})

it('plugin test --watch runs the kit again', async () => {
  const cwd = await written()
  const args = ['plugin', 'test', './acme.ts', '--watch', '--only', 'usage']
  const { child, said, ended } = await start(args, { cwd })
  await expect.poll(said).toContain('0 failed')
  await edit(join(cwd, 'acme.ts'), 'tokens.out', '2 * tokens.out')
  await expect.poll(said).toMatch(/\nacme\.ts:\n[^]*completion_tokens: expected 3, found 6/)
  child.kill('SIGINT')
  await ended
})

it('plugin dev of a payment plugin plays its cases, and takes orders', async () => {
  const cwd = await written('payments')
  const { child, said, ended } = await start(['plugin', 'dev', './acme.ts'], { cwd })
  await expect.poll(said).toMatch(/checks: \d+ ok, 0 failed/)
  await expect.poll(said).toMatch(/acme, read\n {2}got .*"refund":"r_1".*\n {2}gave .*"refunded"/)
  const [, url = '', secret = '', body = ''] =
    /curl (\S+) -H 'authorization: Bearer (\S+)'.* -d '(.*)'/.exec(said())!
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'POST', headers, body })
  const { data } = (await response.json()) as any
  expect(data).toMatchObject({ url: 'https://pay.example/page_1', usd: 25 })
  await expect
    .poll(said)
    .toContain(`the provider got POST /pages\n  {"reference":"${data.reference}"`)
  child.kill('SIGINT')
  expect((await ended).code).toBe(0)
})

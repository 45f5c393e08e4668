/** What the image starts, without a container engine: the same command, as the same user, on files that it cannot write. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { DockerfileParser } from 'dockerfile-ast'
import { readFileSync } from 'node:fs'
import { expect, inject, it, onTestFinished } from 'vitest'
import { hello, send } from '../_setup.ts'
import { own } from './_installed.ts'
import { addressOf, startAs } from './_process.ts'
import { DEPLOY } from './_tools.ts'

const exec = promisify(execFile)
const { modules } = inject('installed')
const parsed = DockerfileParser.parse(readFileSync(join(DEPLOY, 'docker/Dockerfile'), 'utf8'))

/** The words of an instruction in exec form, with the paths of this machine. @param app what the image has at `/app` */
function wordsOf(keyword: string, app: string): string[] {
  const text = parsed
    .getInstructions()
    .findLast((one) => one.getKeyword() === keyword)!
    .getArgumentsContent()!
  const words = JSON.parse(text.slice(text.indexOf('['))) as string[]
  return words.map((word) =>
    word === '/nodejs/bin/node' ? process.execPath : word.replace(/^\/app\//, `${app}/`),
  )
}

it('serves, is healthy, drains on SIGTERM, and writes its data folder only', async () => {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'gateway-image-')))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  const [app, data, config] = [join(root, 'app'), join(root, 'data'), join(root, 'config')]
  for (const path of [app, data, config]) await mkdir(path)
  await exec('cp', ['-al', modules, app])
  await exec('chmod', ['755', root])
  await own([data])
  const env = {
    SLUICEGATE_DATA: data,
    SLUICEGATE__SERVER__HOST: '127.0.0.1',
    SLUICEGATE__SERVER__PORT: '0',
    SLUICEGATE_FIRST_KEY: 'key-of-the-operator',
    HOME: '/nonexistent',
  }
  const [node, ...entry] = wordsOf('ENTRYPOINT', app)
  // The permissions of Node.js besides those of the user: SQLite is native code, which only the latter bind.
  const bound = ['--permission', '--allow-fs-read=*', `--allow-fs-write=${data}`, '--allow-worker']
  const network = process.allowedNodeEnvironmentFlags.has('--allow-net') ? ['--allow-net'] : []
  // The image has no other programs.
  const words = [
    'env',
    'PATH=/nonexistent',
    node!,
    ...bound,
    ...network,
    ...entry,
    ...wordsOf('CMD', app),
  ]
  const started = startAs(words, config, env)
  const url = await addressOf(started)
  const headers = {
    authorization: 'Bearer key-of-the-operator',
    'content-type': 'application/json',
  }
  const chat = () => send(`${url}/v1/chat/completions`, 'POST', JSON.stringify(hello), headers)
  expect((await chat()).json.usage.cost).toBeGreaterThan(0)

  const probe = () => startAs(wordsOf('HEALTHCHECK', app), config, { SLUICEGATE_URL: url }).ended
  expect((await probe()).code).toBe(0)
  started.child.kill('SIGTERM')
  const { code, out, err } = await started.ended
  expect([code, out + err]).toEqual([0, expect.not.stringContaining('ERR_ACCESS_DENIED')])
  expect((await probe()).code).toBe(1)

  const { stdout } = await exec('find', [app, config, '-newer', data, '-user', '65532'])
  expect(stdout).toBe('')
})

it('adds little to its base', async () => {
  const { stdout } = await exec('sh', ['-c', `tar -cz -C ${dirname(modules)} node_modules | wc -c`])
  expect(Number(stdout)).toBeLessThanOrEqual(12 * 2 ** 20)
})

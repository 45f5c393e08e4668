/** A gateway whose output goes to a disk that is full. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { folder } from '../_folder.ts'
import { freePort } from '../_ports.ts'

const CLI = resolve(import.meta.dirname, '../../src/cli.ts')
/** A file of Linux that never has room. */
const FULL = '/dev/full'

it.skipIf(!existsSync(FULL))('serves and ends as it would with room for its log', async () => {
  const port = String(await freePort())
  const command = [process.execPath, CLI, 'serve', '--host', '127.0.0.1', '--port', port]
  const child = spawn('sh', ['-c', `exec "$0" "$@" >${FULL} 2>&1`, ...command], {
    cwd: await folder({}),
    env: { PATH: process.env.PATH },
    stdio: 'ignore',
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  const statusOf = async (path: string) =>
    (await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined))?.status
  await expect.poll(() => statusOf('/readyz')).toBe(200)
  // Each writes a line.
  for (let i = 0; i < 5; i++) expect(await statusOf('/v1/key')).toBe(401)
  child.kill('SIGHUP')
  expect(await statusOf('/v1/models')).toBe(200)
  child.kill('SIGTERM')
  expect(await ended).toEqual([0, null])
})

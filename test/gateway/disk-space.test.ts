import { expect, it } from 'vitest'
import { DiskSpace, foldersOf } from '../../src/gateway/gateway.ts'
import { loaded, MOCK_CONFIG } from '../_setup.ts'
import { eventually } from '../_wait.ts'

const MIB = 1024 * 1024

it('finds disks that are nearly full, once each, and says nothing of a folder that is not there', async () => {
  const { config } = loaded({
    ...MOCK_CONFIG,
    state: { driver: 'file', path: '/data' },
    log: { path: '/log' },
  })
  expect(foldersOf(config)).toEqual(['/data', '/log'])
  const free: Record<string, number> = { '/data': 255 * MIB }
  const disk = new DiskSpace(['/data', '/log'], async (folder) => free[folder] ?? Promise.reject())
  let now = 0
  const states = (expected: object) =>
    eventually(() => {
      disk.tick((now += 10_000))
      expect(
        Object.fromEntries(disk.findings().map(({ object, state }) => [object, state])),
      ).toEqual(expected)
    })
  await states({ '/data': 'wrong' })
  expect(disk.findings()[0]!.message).toBe('the disk of /data has 255 MiB left')
  free['/data'] = 300 * MIB
  free['/log'] = 513 * MIB
  await states({ '/data': 'between', '/log': 'well' })
})

/** A small disk that a test can fill, unmounted with the test. */
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { folder } from '../_folder.ts'
import { mountAt, type Disk } from './_tmpfs.ts'

const SMALL_MIB = 4

/** A disk that is unmounted with the test. */
export async function mountDisk(mib = SMALL_MIB): Promise<Disk> {
  const disk = mountAt(join(await folder({}), 'disk'), mib)
  onTestFinished(() => disk.unmount())
  return disk
}

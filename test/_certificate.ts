/** Certificates for https servers of tests. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A key and a certificate for these names, made with openssl because Node.js cannot; undefined where there is none. */
export function makeCertificate(
  hosts: readonly string[],
  days = 2,
): { key: string; cert: string } | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'certificate-'))
  try {
    const names = hosts.map((name) => `DNS:${name}`).join(',')
    const command =
      `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days ${days} -subj /CN=test ` +
      `-addext subjectAltName=${names} -keyout ${folder}/key.pem -out ${folder}/cert.pem`
    execFileSync('openssl', command.split(' '), { stdio: 'ignore' })
    const read = (name: string) => readFileSync(join(folder, name), 'utf8')
    return { key: read('key.pem'), cert: read('cert.pem') }
  } catch {
    return undefined
  } finally {
    rmSync(folder, { recursive: true })
  }
}

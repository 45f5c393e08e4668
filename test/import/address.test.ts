/** Price lists at https addresses: what is taken, and what is refused in one sentence. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { priceSources, readList } from '../../src/catalog/price-sources.ts'
import { createDownloader } from '../../src/upstream/download.ts'
import { makeCertificate } from '../_certificate.ts'
import { run } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { litellmList } from './_lists.ts'

const HOST = 'lists.example'
const LIMIT = 10_000
const certificate = makeCertificate([HOST])
if (!certificate) process.stderr.write('SKIPPED price lists over TLS: there is no openssl here\n')

describe.skipIf(!certificate)('a list at an https address', () => {
  const pages: Record<string, (response: ServerResponse) => void> = {
    '/list': (response) => response.end(litellmList(3)),
    '/moved': (response) => response.writeHead(302, { location: '/list' }).end(),
    '/circle': (response) => response.writeHead(302, { location: '/circle' }).end(),
    '/downgrade': (response) => response.writeHead(302, { location: `http://${HOST}/list` }).end(),
    '/large': (response) => {
      // Its length is not announced.
      response.write('[')
      response.end(' '.repeat(LIMIT))
    },
    '/cut': (response) => response.end(litellmList(3).slice(0, -20)),
    '/page': (response) => response.end('<html>Log in first</html>'),
    '/other': (response) => response.end('{"models":"none"}'),
    '/gone': (response) => response.writeHead(404).end(litellmList(3)),
  }
  let server: Server
  let base: string
  beforeAll(async () => {
    server = createServer(certificate!, ({ url }, response) => pages[url!]!(response))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    base = `https://${HOST}:${(server.address() as AddressInfo).port}`
  })
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })

  const read = async (path: string) => {
    const fetch = createDownloader(
      { enabled: true, limit: LIMIT, timeout: 20 },
      { ca: certificate!.cert, resolve: async () => ['127.0.0.1'], isPublic: () => true },
    )
    return readList(base + path, undefined, await priceSources(), fetch)
  }

  it.each(['/list', '/moved'])('is read: %s', async (path) => {
    const { name, read: found } = await read(path)
    expect([name, found.rows]).toEqual(['litellm', 3])
  })

  it.each([
    ['/circle', 'could not be read'],
    ['/downgrade', 'could not be read'],
    ['/large', 'could not be read: expected an https address on the public internet'],
    ['/gone', 'could not be read'],
    ['/cut', 'is not valid JSON: it ends in the middle, so it was cut off'],
    ['/page', 'is not valid JSON'],
    ['/other', 'has none of the forms'],
  ])('is refused: %s', async (path, message) => {
    await expect(read(path)).rejects.toThrow(`${base}${path} ${message}`)
  })

  it('on this machine is refused, even if its certificate is trusted', async () => {
    const cwd = await folder({ 'ca.pem': certificate!.cert })
    const { port } = server.address() as AddressInfo
    const { code, err } = await run(
      ['models', 'import', '--from', `https://127.0.0.1:${port}/list`],
      {
        cwd,
        env: { NODE_EXTRA_CA_CERTS: 'ca.pem' },
      },
    )
    expect([code, err]).toEqual([1, expect.stringContaining('on the public internet')])
  })
})

/** Price lists at https addresses: what is taken, and what is refused in one sentence. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { priceSources, readList } from '../../src/catalog/price-sources.ts'
import { NO_NETWORK } from '../../src/config/network.ts'
import { Egress } from '../../src/upstream/egress.ts'
import { makeCertificate } from '../_certificate.ts'
import { run } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { litellmList } from './_lists.ts'

const HOST = 'localhost'
const LIMIT = 20 * 1024 * 1024
const certificate = makeCertificate([HOST])
if (!certificate) process.stderr.write('SKIPPED price lists over TLS: there is no openssl here\n')

describe.skipIf(!certificate)('a list at an https address', () => {
  const pages: Record<string, (response: ServerResponse) => void> = {
    '/list': (response) => response.end(litellmList(3)),
    '/moved': (response) => response.writeHead(302, { location: '/list' }).end(),
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
    const route = new Egress({ tls: { ca: certificate!.cert } }, NO_NETWORK).route()
    return readList(base + path, undefined, await priceSources(), route)
  }

  it('is read', async () => {
    const { name, read: found } = await read('/list')
    expect([name, found.rows]).toEqual(['litellm', 3])
  })

  it.each([
    ['/moved', 'could not be read (HTTP 302)'],
    ['/large', 'could not be read: expected an https address'],
    ['/gone', 'could not be read (HTTP 404)'],
    ['/cut', 'is not valid JSON: it ends in the middle, so it was cut off'],
    ['/page', 'is not valid JSON'],
    ['/other', 'is none of these price lists'],
  ])('is refused: %s', async (path, message) => {
    await expect(read(path)).rejects.toThrow(`${base}${path} ${message}`)
  })

  it('is read by the command with the authorities of Node.js, and without them says why not', async () => {
    const cwd = await folder({ 'ca.pem': certificate!.cert })
    const asked = ['models', 'import', '--from', `${base}/list`]
    const { code, out } = await run(asked, { cwd, env: { NODE_EXTRA_CA_CERTS: 'ca.pem' } })
    expect([code, out]).toEqual([0, expect.stringContaining('litellm: 3 models read')])
    const refused = await run(asked, { cwd })
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringContaining('DEPTH_ZERO_SELF_SIGNED_CERT'),
    ])
  })
})

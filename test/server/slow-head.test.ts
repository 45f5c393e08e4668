import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { createConsola } from 'consola'
import { expect, it } from 'vitest'
import { openFront } from '../../src/server/front.ts'

// Node would look every 30 s, which this test does not wait for.
it(
  'a head that does not arrive is refused soon after its time is up',
  { timeout: 20_000 },
  async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    openFront(server, () => {}, createConsola({ level: -999 }))
    expect(server.headersTimeout).toBe(10_000)
    server.headersTimeout = 100
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    socket.write('GET /livez HTTP/1.1\r\nHost:')
    const answer = Buffer.concat(await socket.toArray()).toString()
    expect(answer).toMatch(/^HTTP\/1.1 408 /)
    expect(answer).toContain('"code":"request_timeout"')
    server.close()
  },
)

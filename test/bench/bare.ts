/**
 * The least a proxy on Node.js can do: node:http in front, undici behind, bytes handed on as they are, with
 * back-pressure, and the upstream cut off when the client leaves.
 */
import { createServer, type ServerResponse } from 'node:http'
import { Pool, type Dispatcher } from 'undici'

const pool = new Pool(process.env.BENCH_UPSTREAM!, { pipelining: 1 })

function relay(response: ServerResponse): Dispatcher.DispatchHandler {
  return {
    onRequestStart(controller) {
      response.on('drain', () => controller.resume())
      response.on('close', () => {
        if (!response.writableFinished) controller.abort(new Error('the client left'))
      })
    },
    onResponseStart(_controller, status, headers) {
      const head = ['content-type', headers['content-type']!]
      if (headers['content-length']) head.push('content-length', headers['content-length'])
      response.writeHead(status, head)
    },
    onResponseData(controller, chunk) {
      if (!response.write(chunk)) controller.pause()
    },
    onResponseEnd() {
      response.end()
    },
    onResponseError() {
      response.destroy()
    },
  }
}

createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
    const headers = ['content-type', request.headers['content-type'] ?? '']
    pool.dispatch({ path: request.url!, method: 'POST', headers, body }, relay(response))
  })
}).listen(Number(process.argv.at(-1)), '127.0.0.1')

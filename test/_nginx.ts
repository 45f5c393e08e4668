/** A real nginx in front of a gateway, below a path. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const PROGRAM = '/usr/sbin/nginx'
export const hasNginx = existsSync(PROGRAM)
export const NO_NGINX = 'nginx is not installed'

export interface Nginx extends AsyncDisposable {
  readonly url: string
}

/** Starts nginx with the lines of a server block. @param http lines before it; relative paths are in a folder of its own */
export async function startNginx(port: number, lines: string, http = ''): Promise<Nginx> {
  const folder = await mkdtemp(join(tmpdir(), 'nginx-'))
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${folder}/${name};`)
    .join('\n')
  const conf = `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
events {}
http { access_log off; ${temporary} ${http}
server { listen 127.0.0.1:${port}; proxy_http_version 1.1; proxy_buffering off;
proxy_set_header Host $http_host; ${lines} } }`
  await writeFile(join(folder, 'nginx.conf'), conf)
  const child = spawn(PROGRAM, ['-p', folder, '-c', join(folder, 'nginx.conf')], {
    stdio: 'ignore',
  })
  const ended = once(child, 'exit')
  for (;;) {
    if (child.exitCode !== null) throw new Error(`nginx has ended with status ${child.exitCode}`)
    if (await listens(port)) break
  }
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(socket.destroy() !== undefined))
    socket.once('error', () => setTimeout(() => resolve(false), 20))
  })
}

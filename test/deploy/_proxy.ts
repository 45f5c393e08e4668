/** nginx and Caddy with the files of `config/deploy/proxy/`, as the unprivileged user, on ports of this machine. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { freePort } from '../_ports.ts'
import { environment, own, unprivileged } from './_installed.ts'
import { DEPLOY } from './_tools.ts'

const exec = promisify(execFile)

/** A server that is running. */
export interface Proxy extends AsyncDisposable {
  readonly port: number
  readonly url: string
}

/** A certificate for this machine, for servers that are asked by TLS. */
interface Certificate {
  readonly cert: string
  readonly key: string
}

export type StartProxy = (
  program: string,
  upstreams: readonly number[],
  options?: { readonly tls?: boolean },
) => Promise<Proxy>

/** nginx with `nginx.conf` and a list of gateways like `upstream.conf`. */
export const startNginx: StartProxy = async (program, upstreams, { tls = false } = {}) => {
  const { folder, port, certificate } = await prepare(tls)
  const listen = certificate
    ? `listen 127.0.0.1:${port} ssl; ssl_certificate ${certificate.cert}; ssl_certificate_key ${certificate.key};`
    : `listen 127.0.0.1:${port};`
  const server = replaced(await text('nginx.conf'), 'listen 80;', listen)
  const lines = upstreams.map((one) => `server 127.0.0.1:${one} max_fails=0;`).join('\n')
  const list = replaced(await text('upstream.conf'), 'server 127.0.0.1:8787 max_fails=0;', lines)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${folder}/${name};`)
    .join('\n')
  const conf = `daemon off; pid ${folder}/pid; error_log stderr;
events {}
http { access_log off; ${temporary}
${list}
${server} }`
  await writeFile(join(folder, 'nginx.conf'), conf)
  await own([folder])
  const words = [program, '-p', folder, '-c', join(folder, 'nginx.conf')]
  await exec(...unprivileged(...words, '-t'))
  return run(words, folder, port, tls)
}

/** Caddy with the `Caddyfile`. */
export const startCaddy: StartProxy = async (program, upstreams, { tls = false } = {}) => {
  const { folder, port, certificate } = await prepare(tls)
  const options = '{\n\tadmin off\n\tauto_https disable_redirects\n}\n'
  const site = certificate
    ? `https://127.0.0.1:${port} {\n\ttls ${certificate.cert} ${certificate.key}`
    : `http://:${port} {`
  const caddyfile = options + replaced(await text('Caddyfile'), '\n:80 {', `\n${site}`)
  const file = join(folder, 'Caddyfile')
  await writeFile(file, caddyfile)
  await own([folder])
  const addresses = upstreams.map((one) => `127.0.0.1:${one}`).join(' ')
  const words = [program, 'run', '--config', file, '--adapter', 'caddyfile']
  return run(words, folder, port, tls, { SLUICEGATE_UPSTREAMS: addresses })
}

function text(name: string): Promise<string> {
  return readFile(join(DEPLOY, 'proxy', name), 'utf8')
}

function replaced(content: string, old: string, fresh: string): string {
  expect(content).toContain(old)
  return content.replace(old, () => fresh)
}

async function prepare(tls: boolean) {
  const folder = await mkdtemp(join(tmpdir(), 'gateway-proxy-'))
  const port = await freePort()
  if (!tls) return { folder, port, certificate: undefined }
  const certificate: Certificate = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1']
  const files = ['-keyout', certificate.key, '-out', certificate.cert]
  const form = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  await exec('openssl', ['req', ...form, ...subject, ...files, '-days', '2'])
  return { folder, port, certificate }
}

async function run(
  words: readonly string[],
  folder: string,
  port: number,
  tls: boolean,
  env: Readonly<Record<string, string>> = {},
): Promise<Proxy> {
  await mkdir(join(folder, 'home'), { recursive: true })
  await own([folder])
  const [program, args] = unprivileged(...words)
  const home = join(folder, 'home')
  const child = spawn(program, args, {
    cwd: folder,
    env: environment({ HOME: home, XDG_DATA_HOME: home, XDG_CONFIG_HOME: home, ...env }),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr.on('data', (part: Buffer) => (said += part))
  const ended = once(child, 'close')
  const answers = async () => {
    if (child.exitCode !== null) throw new Error(said)
    const socket = connect(port, '127.0.0.1')
    return once(socket, 'connect')
      .then(
        () => true,
        () => false,
      )
      .finally(() => socket.destroy())
  }
  await expect.poll(answers).toBe(true)
  return {
    port,
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}

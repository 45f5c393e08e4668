/** Images, compose files, the chart and the unit, as far as they can be judged without running them. */
import { DockerfileParser } from 'dockerfile-ast'
import { parseYAML } from 'confbox'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeCertificate } from '../_certificate.ts'
import { loadConfig } from '../../src/config/config.ts'
import { call } from '../_cli.ts'
import { DEPLOY, ROOT, runTool, withTool } from './_tools.ts'

const read = (...path: string[]) => readFileSync(join(DEPLOY, ...path), 'utf8')

describe.each(['Dockerfile', 'Dockerfile.full'])('docker/%s', (name) => {
  const instructions = DockerfileParser.parse(read('docker', name)).getInstructions()
  const of = (keyword: string) => instructions.filter((one) => one.getKeyword() === keyword)
  const stages = of('FROM')
  const last = instructions.slice(instructions.indexOf(stages.at(-1)!))
  const inLast = (keyword: string) => last.filter((one) => one.getKeyword() === keyword)

  it('runs as a user without rights, with probe, signal and volume', () => {
    const user = inLast('USER').at(-1)!.getArgumentsContent()!
    expect(user).toMatch(/^[1-9]\d*:[1-9]\d*$/)
    for (const keyword of ['HEALTHCHECK', 'STOPSIGNAL', 'VOLUME']) {
      expect(inLast(keyword)).toHaveLength(1)
    }
    for (const keyword of ['ENTRYPOINT', 'CMD']) {
      expect(inLast(keyword)[0]!.getArgumentsContent()).toMatch(/^\[".*"\]$/)
    }
  })

  it('fetches nothing that changes by itself', () => {
    const text = instructions.map((one) => one.getTextContent()).join('\n')
    expect(of('ADD')).toEqual([])
    expect(text).not.toMatch(/\bcurl\b|\bwget\b|:latest\b/)
    const installed = /npm install [^\n]*(?:\\\n[^\n]*)*/
      .exec(text)![0]
      .split(/[\s\\]+/)
      .slice(2)
    const names = installed.filter((word) => /^[@a-z]/.test(word) && word !== '&&')
    expect(names.filter((word) => !/.@\d+$/.test(word))).toEqual([])
  })

  it('copies only what the build has made', () => {
    const built = of('RUN')
      .map((one) => one.getArgumentsContent()!)
      .join('\n')
    const folders = of('WORKDIR').map((one) => one.getArgumentsContent())
    for (const copy of inLast('COPY')) {
      const source = copy.getArguments().at(-2)!.getValue()
      expect(folders.includes(source) || built.includes(`mkdir ${source}`), source).toBe(true)
    }
  })

  it('has in its context what the package is made of', () => {
    const kept = read('docker', `${name}.dockerignore`).split('\n')
    const { files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const made = new Set(['dist', 'sbom.json'])
    const needed = files.filter((one: string) => !one.startsWith('!') && !made.has(one))
    for (const path of needed) expect(kept).toContain(`!${path.split('/')[0]}`)
    for (const path of of('COPY')[0]!.getArguments().slice(0, -1)) {
      expect(kept).toContain(`!${path.getValue()}`)
    }
  })

  withTool('hadolint', (hadolint) => {
    it('finds nothing', async () => {
      expect(await runTool(hadolint, [join(DEPLOY, 'docker', name)])).toMatchObject({ code: 0 })
    })
  })
})

describe.each(['compose.yaml', 'compose.redis.yaml'])('compose/%s', (name) => {
  const folder = join(DEPLOY, 'compose')
  const compose = parseYAML<any>(read('compose', name))
  const services = Object.values<any>(compose.services)

  it('names files that there are, and variables that are explained', () => {
    const mounts = services.flatMap(({ volumes = [] }) => volumes as string[])
    const files = mounts.map((mount) => mount.split(':')[0]!).filter((path) => path.startsWith('.'))
    const built = services.flatMap(({ build }) =>
      build ? [resolve(folder, build.context, build.dockerfile)] : [],
    )
    for (const path of [...files, ...built])
      expect(existsSync(resolve(folder, path)), path).toBe(true)
    const example = read('compose', '.env.example')
    for (const [, variable, rest] of read('compose', name).matchAll(/\$\{(\w+)([^}]*)\}/g)) {
      expect(rest!.startsWith(':-') || example.includes(`${variable}=`), variable).toBe(true)
    }
  })

  it('gives gateways nothing that they do not need', () => {
    for (const gateway of services.filter(({ image }) => image.includes('SLUICEGATE_IMAGE'))) {
      expect(gateway).toMatchObject({
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
        tmpfs: ['/tmp'],
      })
    }
    for (const { ports = [] } of services) {
      for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/)
    }
  })

  withTool('check-jsonschema', (check) => {
    it('is valid', async () => {
      const args = ['--builtin-schema', 'vendor.compose-spec', join(folder, name)]
      expect(await runTool(check, args)).toMatchObject({ code: 0 })
    })
  })
})

describe('configurations of compose', () => {
  it.each(['gateway.config.yaml', 'gateway.redis.config.yaml'])('%s is valid', async (name) => {
    const env = { SLUICEGATE_ADMIN_TOKEN: 'a-token-of-8' }
    const { code, err } = await call(['check', '--config', join(DEPLOY, 'compose', name)], { env })
    expect(err).toBe('')
    expect(code).toBe(0)
  })
})

describe('systemd/sluicegate.service', () => {
  withTool('systemd-analyze', (analyze) => {
    const unit = join(DEPLOY, 'systemd/sluicegate.service')

    it('is a unit', async () => {
      const { code, err } = await runTool(analyze, ['verify', unit])
      expect(err).not.toContain('sluicegate.service:')
      expect(code).toBe(0)
    })

    it('can reach little', async () => {
      const { out } = await runTool(analyze, ['security', '--offline=true', unit])
      const level = /Overall exposure level[^:]*: (\d+\.\d)/.exec(out)![1]
      expect(Number(level)).toBeLessThanOrEqual(2.5)
    })
  })
})

/** The variables that an image sets. */
function environmentOf(dockerfile: string): Record<string, string> {
  const lines = DockerfileParser.parse(dockerfile).getENVs()
  const properties = lines.flatMap((line) => line.getProperties())
  return Object.fromEntries(properties.map((one) => [one.getName(), one.getValue() ?? '']))
}

/** Sets of values by name, as options of helm. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  default: [],
  redis: ['state.driver=redis', 'state.url=redis://cache:6379'],
  ingress: ['ingress.enabled=true', 'ingress.host=models.example', 'ingress.tlsSecret=tls'],
  route: ['httpRoute.enabled=true', 'httpRoute.parentRefs[0].name=entry'],
  autoscaling: [
    'state.driver=redis',
    'autoscaling.enabled=true',
    'autoscaling.targetRunningCalls=20',
  ],
  monitoring: [
    'monitoring.serviceMonitor=true',
    'monitoring.rules=true',
    'monitoring.dashboard=true',
  ],
  'existing secret': ['existingSecret=vendor-keys'],
  ephemeral: ['state.driver=redis', 'state.url=redis://cache:6379', 'state.outboxEphemeral=true'],
  network: [
    'state.driver=redis',
    'egress.proxy=http://proxy.corp:3128',
    'egress.caConfigMap=house-ca',
    'tls.secretName=gateway-tls',
    'ingress.enabled=true',
    'monitoring.serviceMonitor=true',
  ],
  plugins: ['plugins.guard\\.ts=export default {}'],
  all: [
    'state.driver=redis',
    'replicas=3',
    'ingress.enabled=true',
    'httpRoute.enabled=true',
    'monitoring.serviceMonitor=true',
    'secretEnv.OPENAI_API_KEY=sk-planted-secret',
    'networkPolicy.egress[0].ports[0].port=8000',
  ],
}
const CHART = join(DEPLOY, 'helm/sluicegate')

describe('helm/sluicegate', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'gateway-chart-'))
    const { cert, key } = makeCertificate(['gateway'], 90)!
    await writeFile(join(folder, 'tls.crt'), cert)
    await writeFile(join(folder, 'ca.crt'), cert)
    await writeFile(join(folder, 'tls.key'), key)
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it('has the version of the package, and a line for each value', () => {
    const chart = parseYAML<any>(read('helm/sluicegate/Chart.yaml'))
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    expect([chart.version, chart.appVersion]).toEqual([version, version])
    const names = Object.keys(parseYAML<object>(read('helm/sluicegate/values.yaml')))
    const schema = JSON.parse(read('helm/sluicegate/values.schema.json'))
    expect(names.filter((name) => !(name in schema.properties))).toEqual([])
    const page = read('helm/sluicegate/README.md')
    expect(names.filter((name) => !page.includes(`| \`${name}\` |`))).toEqual([])
  })

  it.each([
    ['files/alerts.yaml', 'prometheus/alerts.yaml'],
    ['files/dashboard.json', 'grafana/sluicegate.json'],
  ])('%s is %s; `npm run docs:generate` copies it', (copy, file) => {
    expect(read('helm/sluicegate', copy)).toBe(read(file))
  })

  withTool('helm', (helm) => {
    const template = (values: readonly string[], ...more: string[]) => {
      const set = values.flatMap((value) => ['--set', value])
      return runTool(helm, ['template', 'try', CHART, '--kube-version', '1.37.0', ...set, ...more])
    }

    it('passes its linter', async () => {
      expect(await runTool(helm, ['lint', '--strict', CHART])).toMatchObject({ code: 0 })
    })

    it.each(Object.keys(VALUES))('%s: renders objects that keep the rules', async (name) => {
      const { code, out, err } = await template(VALUES[name]!)
      expect([code, err]).toEqual([0, ''])
      expect((await template(VALUES[name]!)).out).toBe(out)
      const objects = out
        .split(/^---$/m)
        .map((text) => parseYAML<any>(text))
        .filter((one) => one?.kind)
      const ofKind = (kind: string) => objects.filter((one) => one.kind === kind)
      const [workload] = [...ofKind('StatefulSet'), ...ofKind('Deployment')]
      const { spec } = workload.spec.template
      expect(spec.securityContext).toMatchObject({ runAsNonRoot: true, fsGroup: 65532 })
      expect(spec.automountServiceAccountToken).toBe(false)
      expect(spec.terminationGracePeriodSeconds).toBe(50)
      const [container] = spec.containers
      expect(container.securityContext).toMatchObject({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
      expect(container.resources.limits).toEqual({ memory: '512Mi' })
      expect(container.startupProbe.httpGet.path).toBe('/startupz')
      expect(ofKind('NetworkPolicy')).toHaveLength(1)
      const isShared = VALUES[name]!.includes('state.driver=redis')
      expect(ofKind('PodDisruptionBudget')).toHaveLength(isShared ? 1 : 0)
      expect(workload.kind).toBe(name === 'ephemeral' ? 'Deployment' : 'StatefulSet')
      if (workload.kind === 'Deployment') {
        expect(workload.spec.strategy.rollingUpdate.maxUnavailable).toBe(0)
      } else {
        const [{ spec: volume }] = workload.spec.volumeClaimTemplates
        expect(volume.resources.requests.storage).toBe(isShared ? '2Gi' : '5Gi')
        expect(container.volumeMounts).toContainEqual({ name: 'data', mountPath: '/data' })
        const names = ofKind('Service').map((one) => one.metadata.name)
        expect(names).toContain(workload.spec.serviceName)
      }
      if (workload.kind === 'StatefulSet' && isShared) {
        expect(workload.spec).toMatchObject({
          podManagementPolicy: 'Parallel',
          minReadySeconds: 5,
          persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' },
        })
      }
      for (const { spec: scaling } of ofKind('HorizontalPodAutoscaler')) {
        expect(scaling.scaleTargetRef.kind).toBe(workload.kind)
      }
      if (name === 'network') {
        const [{ spec: rules }] = ofKind('NetworkPolicy')
        const ports = rules.egress.flatMap((one: any) => one.ports.map(({ port }: any) => port))
        expect(ports).toEqual([53, 53, 3128, 6379])
        for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
          expect(container[probe].httpGet.scheme).toBe('HTTPS')
        }
      }

      const [{ data }, shown] = ofKind('ConfigMap')
      if (name === 'monitoring') {
        expect(ofKind('PrometheusRule')[0].spec).toEqual(parseYAML(read('prometheus/alerts.yaml')))
        expect(shown.data['sluicegate.json']).toBe(read('grafana/sluicegate.json'))
        expect(shown.metadata.labels).toMatchObject({ grafana_dashboard: '1' })
        expect(ofKind('ServiceMonitor')[0].spec.endpoints[0].relabelings).toEqual([
          { targetLabel: 'job', replacement: 'sluicegate' },
        ])
      }
      expect(JSON.stringify(data)).not.toContain('planted-secret')
      const file = join(folder, 'gateway.config.yaml')
      const mounted = data['gateway.config.yaml'].replaceAll(/ \/(?:tls|egress)\//g, ` ${folder}/`)
      await writeFile(file, mounted)
      const checked = await call(['check', '--config', file])
      expect([checked.code, checked.err]).toEqual([0, ''])
      await writeFile(join(folder, 'objects.yaml'), out)
    })

    it.each(['docker/Dockerfile', 'docker/Dockerfile.full'])(
      'the outbox of %s is on the volume of the pod, which the pod that replaces it has too; without a volume it is not kept',
      async (file) => {
        const placeOf = async (name: string) => {
          const { out } = await template(VALUES[name]!)
          const objects = out.split(/^---$/m).map((text) => parseYAML<any>(text))
          const workload = objects.find((one) => ['StatefulSet', 'Deployment'].includes(one?.kind))
          const [container] = workload.spec.template.spec.containers
          const path = join(folder, 'pod.yaml')
          const map = objects.find((one) => one?.data?.['gateway.config.yaml'])
          await writeFile(path, map.data['gateway.config.yaml'])
          const own = (container.env ?? []).map((one: any) => [one.name, one.value])
          const env = { ...environmentOf(read(file)), ...Object.fromEntries(own) }
          const { config } = await loadConfig({ file: path, cwd: folder, env })
          const claims = (workload.spec.volumeClaimTemplates ?? []).map(
            (one: any) => one.metadata.name,
          )
          const mounts = container.volumeMounts.filter((one: any) => claims.includes(one.name))
          return { state: config.state as any, mounts: mounts.map((one: any) => one.mountPath) }
        }
        for (const name of ['redis', 'autoscaling']) {
          const { state, mounts } = await placeOf(name)
          expect([state.outbox, state.outboxKept, mounts]).toEqual([
            '/data/outbox',
            true,
            ['/data'],
          ])
        }
        expect(await placeOf('ephemeral')).toMatchObject({
          state: { outboxKept: false },
          mounts: [],
        })
      },
    )

    it('refuses a proxy with a password, which belongs into a secret', async () => {
      const { code, err } = await template(['egress.proxy=http://me:secret@proxy.corp:3128'])
      expect([code, err]).toEqual([
        1,
        expect.stringContaining('use HTTPS_PROXY from existingSecret'),
      ])
    })

    it.each([['replicas=2'], ['autoscaling.enabled=true']])(
      'refuses %s with a file, which has one owner',
      async (value) => {
        expect((await template([value])).code).toBe(1)
        const { err } = await template([value], '--skip-schema-validation')
        expect(err).toContain('state.driver file has one owner; use redis for several replicas')
      },
    )

    withTool('kubernetes-validate', (validate) => {
      it('renders what Kubernetes takes', async () => {
        const files = await Promise.all(
          Object.entries(VALUES).map(async ([name, values]) => {
            const file = join(folder, `${name.replace(' ', '-')}.yaml`)
            await writeFile(file, (await template(values)).out)
            return file
          }),
        )
        const { code, out, err } = await runTool(validate, ['-k', '1.37', '--strict', ...files])
        expect(code, out + err).toBe(0)
      })
    })
  })
})

describe('workflows', () => {
  const names = readdirSync(join(ROOT, '.github/workflows')).map((name) => name.replace('.yml', ''))
  const text = (name: string) => readFileSync(join(ROOT, `.github/workflows/${name}.yml`), 'utf8')

  it.each(names)('%s uses actions by commit, and has no rights by default', (name) => {
    const uses = [...text(name).matchAll(/uses: (\S+)(.*)/g)]
    for (const [line, action, comment] of uses) {
      expect(action, line).toMatch(/@[0-9a-f]{40}$/)
      expect(comment, line).toMatch(/# v\d/)
    }
    const { permissions, on } = parseYAML<any>(text(name))
    expect(permissions).toEqual({})
    expect(Object.keys(on)).not.toContain('pull_request_target')
  })

  withTool('actionlint', (actionlint) => {
    it('finds nothing', async () => {
      const files = names.map((name) => join(ROOT, `.github/workflows/${name}.yml`))
      const { out } = await runTool(actionlint, ['-shellcheck=', '-pyflakes=', ...files])
      expect(out).toBe('')
    })
  })
})

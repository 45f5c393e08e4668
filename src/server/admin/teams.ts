/** Teams: keys of one account with limits, models and a switch in common. */
import { teamNotices } from '../../gateway/notices.ts'
import { limitsOf } from './limits.ts'
import { toTeamChange, type Account, type Key, type Team } from '../../accounts/stored.ts'
import { withIds } from '../../models/allowlist.ts'
import { parsePico } from '../../money/money.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { teamKey } from '../../state/ledger/ledger.ts'
import { ruleOf } from '../../state/ledger/zone.ts'
import { zoneOf } from '../../accounts/limits.ts'
import { note, audited, changing } from './audit.ts'
import { csvResponse } from './csv.ts'
import { checkParameters, readLimit, wantsCsv } from '../../errors/query.ts'
import { newTeam, TEAM_COLUMNS, teamChange, teamSettings, teamView } from './resources/team.ts'
import {
  accountOf,
  bodyOf,
  missing,
  needs,
  read,
  readNew,
  type AdminRequest,
  type Answer,
  type Routes,
} from './route.ts'

export const teamRoutes: Routes = {
  '/accounts/:id/teams': { POST: needs('keys', createTeam) },
  '/teams': { GET: needs('read', listTeams) },
  '/teams/:id': {
    GET: needs('read', showTeam),
    PATCH: needs('keys', changeTeam),
    DELETE: needs('keys', archiveTeam),
  },
}

const PARAMETERS = new Set(['account', 'q', 'state', 'sort', 'format', 'limit', 'after'])

async function createTeam(request: AdminRequest): Promise<Answer> {
  const { runtime, id: account, actor } = request
  const { id, name, disabled, ...settings } = readNew(newTeam, await bodyOf(request))
  const change = withIds(runtime.catalog, toTeamChange({ disabled, ...settings }))
  const team = await runtime.accounts.createTeam(account, { ...change, id, name }, actor.id)
  const after = teamSettings(team)
  await note(request, { action: 'team.create', object: `team:${team.id}`, after })
  return { status: 201, body: { data: await wholeTeam(runtime, team) } }
}

async function listTeams({ runtime, query }: AdminRequest): Promise<Answer | Response> {
  checkParameters(query, PARAMETERS)
  const isCsv = wantsCsv(query)
  const account = query.get('account') ?? undefined
  const [text, state] = [query.get('q')?.toLowerCase() ?? '', query.get('state')]
  const teams = (await runtime.accounts.listTeams(account)).filter(
    (team) =>
      `${team.id}\n${team.name}`.toLowerCase().includes(text) &&
      (state === null ? team.archivedAt === undefined : stateOf(team) === state),
  )
  const rows: Awaited<ReturnType<typeof rowOf>>[] = []
  for (const [id, ofAccount] of Map.groupBy(teams, (team) => team.account)) {
    const [of, keys] = await Promise.all([accountOf(runtime, id), runtime.accounts.listKeys(id)])
    rows.push(...(await Promise.all(ofAccount.map((team) => rowOf(runtime, team, of, keys)))))
  }
  const sort = query.get('sort') ?? 'created_at'
  const by = (row: (typeof rows)[number]) =>
    sort === 'name'
      ? row.name
      : sort === 'spend_month_usd'
        ? -parsePico(JSON.stringify(row.spend.month))
        : row.created_at
  rows.sort((a, b) => (by(a) < by(b) ? -1 : 1))
  if (isCsv) return csvResponse('teams', TEAM_COLUMNS, rows)
  const [given, after] = [query.get('limit'), query.get('after')]
  const limit = given === null ? rows.length : readLimit(given)
  const from = after === null ? 0 : rows.findIndex(({ id }) => id === after) + 1
  const page = rows.slice(from, from + limit)
  const next = from + limit < rows.length ? page.at(-1)!.id : null
  return { body: { data: page, next } }
}

async function showTeam({ runtime, id }: AdminRequest): Promise<Answer> {
  return { body: { data: await wholeTeam(runtime, await teamOf(runtime, id)) } }
}

async function changeTeam(request: AdminRequest): Promise<Answer> {
  const { runtime, id } = request
  const change = withIds(runtime.catalog, toTeamChange(read(teamChange, await bodyOf(request))))
  return changing(request, ofTeams(request), 'update', async (condition) => ({
    item: await runtime.accounts.changeTeam(id, change, condition),
  }))
}

async function archiveTeam(request: AdminRequest): Promise<Answer> {
  return changing(request, ofTeams(request), 'archive', async (condition) => ({
    item: await request.runtime.accounts.archiveTeam(request.id, condition),
  }))
}

const ofTeams = ({ runtime }: AdminRequest) => ({
  kind: 'team',
  settings: audited(teamSettings),
  view: (team: Team) => wholeTeam(runtime, team),
})

async function teamOf({ accounts }: Runtime, id: string): Promise<Team> {
  return (await accounts.team(id)) ?? missing('team', id)
}

function stateOf({ archivedAt, disabled }: Team) {
  return archivedAt !== undefined ? 'archived' : disabled ? 'disabled' : 'active'
}

/** @param keys of its account */
async function rowOf(
  { ledger, config }: Runtime,
  team: Team,
  account: Account,
  keys: readonly Key[],
) {
  const zone = ruleOf(zoneOf(account, config.defaults))
  const spend = await ledger.key(team.account, teamKey(team.id), zone)
  const key_count = keys.filter(
    (key) => key.team === team.id && key.archivedAt === undefined,
  ).length
  return teamView(team, spend, { state: stateOf(team), key_count })
}

async function wholeTeam(runtime: Runtime, team: Team) {
  const account = await accountOf(runtime, team.account)
  const keys = await runtime.accounts.listKeys(team.account)
  const limit_status = await limitsOf(runtime, { team, account })
  const warnings = teamNotices(runtime, { team, account }, { status: limit_status })
  return { ...(await rowOf(runtime, team, account, keys)), limit_status, warnings }
}

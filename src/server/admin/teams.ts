/** Teams: keys of one account with limits, models and a switch in common. */
import { teamNotices } from '../../gateway/notices.ts'
import { limitsOf } from './limits.ts'
import { toTeamChange, type Account, type Key, type Team } from '../../accounts/stored.ts'
import { withIds } from '../../models/allowlist.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { teamKey } from '../../state/ledger/ledger.ts'
import { ruleOf } from '../../state/ledger/zone.ts'
import { zoneOf } from '../../accounts/limits.ts'
import { note, audited, changing } from './audit.ts'
import { checkParameters } from '../../errors/query.ts'
import { answerOf, COMMON, readStates } from './lists.ts'
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

const PARAMETERS = new Set([...COMMON, 'account'])
const STATES = ['active', 'disabled', 'archived']

async function createTeam(request: AdminRequest): Promise<Answer> {
  const { runtime, id: account, actor } = request
  const { id, name, disabled, ...settings } = readNew(newTeam, await bodyOf(request))
  const change = withIds(runtime.catalog, toTeamChange({ disabled, ...settings }))
  const team = await runtime.accounts.createTeam(account, { ...change, id, name }, actor.id)
  const after = teamSettings(team)
  await note(request, { action: 'team.create', object: `team:${team.id}`, after })
  return { status: 201, body: { data: await wholeTeam(runtime, team) } }
}

/** Teams as they are listed; without a limit all of them. @throws InvalidRequest for an unknown or unreadable parameter */
async function listTeams(request: AdminRequest): Promise<Answer | Response> {
  const { runtime, query } = request
  const { accounts } = runtime
  checkParameters(query, PARAMETERS)
  const states = readStates(query, STATES)
  const account = query.get('account') ?? undefined
  if (account !== undefined) await accountOf(runtime, account)
  const teams = await accounts.listTeams(account)
  const rowsOf = async (some: readonly Team[]) => {
    const owners = new Map<string, [Account, readonly Key[]]>()
    for (const id of new Set(some.map(({ account }) => account))) {
      owners.set(id, await Promise.all([accountOf(runtime, id), accounts.listKeys(id)]))
    }
    return Promise.all(some.map((team) => rowOf(runtime, team, ...owners.get(team.account)!)))
  }
  const listed = teams.map((team) => ({ ...team, texts: `${team.id}\n${team.name}`.toLowerCase() }))
  return answerOf(request, {
    name: 'teams',
    columns: TEAM_COLUMNS,
    all: new Map(listed.map((team) => [team.id, team])),
    isListed: (team) => states.has(stateOf(team)),
    sums: {
      spend_month_usd: (all) =>
        Promise.all(
          all.map(async ({ account, id }) => {
            const zone = ruleOf(zoneOf(await accountOf(runtime, account), runtime.config.defaults))
            return (await runtime.ledger.key(account, teamKey(id), zone)).month
          }),
        ),
    },
    rowsOf,
    most: teams.length || 1,
  })
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

/** @param keys the keys of its account */
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

/** Every route of the admin API, with the role that it needs. */
import {
  addCredits,
  adjustBalance,
  archiveAccount,
  changeAccount,
  createAccount,
  showAccount,
} from './accounts.ts'
import { listChanges } from './audit.ts'
import {
  archiveKey,
  changeKey,
  createKey,
  playKey,
  rotateKey,
  showKey,
  showLimits,
} from './keys.ts'
import { listOrphans, listRows, verify } from './ledger.ts'
import { listAccounts, listKeys } from './lists.ts'
import { coolDown, listGateways, resume } from './gateways.ts'
import { showGuard } from './guard.ts'
import { importModels } from './model-import.ts'
import { listModels } from './models.ts'
import { removeContents, showContent } from './contents.ts'
import { showConfig } from './config.ts'
import { diffPolicy, evaluatePolicy } from './policies.ts'
import { listAlerts, muteAlert } from './alerts.ts'
import { replayPolicy } from './replay.ts'
import { streamEvents } from './events.ts'
import { showOverview } from './overview.ts'
import { answerRequests, endRequest, showRequest } from './requests.ts'
import { admin, billing, viewer, type Route } from './route.ts'
import { search } from './search.ts'
import { rebuildUsage, showBalance, showStatement, showUsage, verifyUsage } from './usage.ts'
import { outboxView, statusView } from './views.ts'

/** Routes by path below `/admin`, then by method; HEAD is answered like GET. */
export const ADMIN_ROUTES: Readonly<Record<string, Readonly<Record<string, Route>>>> = {
  '/accounts': { GET: viewer(listAccounts), POST: admin(createAccount) },
  '/accounts/:id': {
    GET: viewer(showAccount),
    PATCH: billing(changeAccount),
    DELETE: admin(archiveAccount),
  },
  '/accounts/:id/credits': { POST: billing(addCredits) },
  '/accounts/:id/adjust': { POST: billing(adjustBalance) },
  '/accounts/:id/balance': { GET: viewer(showBalance) },
  '/accounts/:id/statement': { GET: billing(showStatement) },
  '/accounts/:id/ledger': { GET: viewer(listRows) },
  '/accounts/:id/keys': { POST: admin(createKey) },
  '/alerts': { GET: viewer(listAlerts) },
  '/alerts/:id/mute': { POST: admin(muteAlert) },
  '/audit': { GET: admin(listChanges) },
  '/config': { GET: admin(showConfig) },
  '/events': { GET: viewer(streamEvents) },
  '/deployments/:id/cooldown': { POST: admin(coolDown) },
  '/deployments/:id/resume': { POST: admin(resume) },
  '/gateways': { GET: viewer(listGateways) },
  '/guard': { GET: viewer(showGuard) },
  '/keys': { GET: viewer(listKeys) },
  '/keys/:id': { GET: viewer(showKey), PATCH: admin(changeKey), DELETE: admin(archiveKey) },
  '/keys/:id/limits': { GET: viewer(showLimits) },
  '/keys/:id/play': { POST: admin(playKey) },
  '/keys/:id/rotate': { POST: admin(rotateKey) },
  '/ledger/verify': { GET: viewer(verify) },
  '/ledger/orphans': { GET: viewer(listOrphans) },
  '/ledger/outbox': { GET: viewer(({ gateway }) => ({ body: { data: outboxView(gateway) } })) },
  '/models': { GET: viewer(listModels) },
  '/models/import': { POST: admin(importModels) },
  '/overview': { GET: viewer(showOverview) },
  '/policies/diff': { POST: viewer(diffPolicy) },
  '/policies/evaluate': { POST: viewer(evaluatePolicy) },
  '/policies/replay': { POST: admin(replayPolicy) },
  '/requests': { GET: viewer(answerRequests) },
  '/requests/content': { DELETE: admin(removeContents) },
  '/requests/:id/content': { GET: admin(showContent) },
  '/requests/:id/end': { POST: admin(endRequest) },
  '/requests/:id': { GET: viewer(async (request) => ({ body: await showRequest(request) })) },
  '/search': { GET: viewer(search) },
  '/usage': { GET: viewer(showUsage) },
  '/usage/verify': { GET: admin(verifyUsage) },
  '/usage/rebuild': { POST: admin(rebuildUsage) },
  '/status': { GET: viewer(({ gateway }) => ({ body: { data: statusView(gateway) } })) },
}

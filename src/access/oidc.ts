/** Signing in by OpenID Connect: the code flow with PKCE. The library checks state, nonce, issuer, audience and signatures. */
import type { ClientAuth, Configuration, CustomFetch } from 'openid-client'
import { isLoopback } from '../errors/addresses.ts'

/** A provider as it is configured. */
interface OidcProvider {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret?: string | undefined
  readonly scopes: readonly string[]
  /** Whether claims come from the provider's userinfo endpoint, too. */
  readonly userinfo: boolean
}

/** What a sign-in that has begun is recognised by. */
interface LoginSecrets {
  readonly verifier: string
  readonly nonce: string
  readonly state: string
}

const DISCOVERY_MS = 3_600_000
const TIMEOUT_SECONDS = 10

interface Discovered {
  readonly configuration: Promise<Configuration>
  /** Monotonic ms. */
  readonly at: number
}

/** The providers of one gateway. What they publish of themselves is kept for an hour. */
export class OidcClients {
  readonly #fetch: CustomFetch
  readonly #discovered = new Map<string, Discovered>()

  constructor(fetch: CustomFetch) {
    this.#fetch = fetch
  }

  /** Begins a sign-in. @returns the address of the provider that asks the person, and what its answer is compared with */
  async begin(
    provider: OidcProvider,
    redirectUri: string,
  ): Promise<LoginSecrets & { readonly url: URL }> {
    const client = await import('openid-client')
    const configuration = await this.#configurationOf(provider)
    const verifier = client.randomPKCECodeVerifier()
    const [nonce, state] = [client.randomNonce(), client.randomState()]
    const url = client.buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri,
      scope: provider.scopes.join(' '),
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      nonce,
      state,
    })
    return { url, verifier, nonce, state }
  }

  /**
   * The claims of the person that a provider sends back.
   * @param answer the address that the provider has sent the browser to
   * @throws the library's error where the answer is none to that sign-in
   */
  async finish(
    provider: OidcProvider,
    answer: URL,
    { verifier, nonce, state }: LoginSecrets,
  ): Promise<Readonly<Record<string, unknown>>> {
    const client = await import('openid-client')
    const configuration = await this.#configurationOf(provider)
    const tokens = await client.authorizationCodeGrant(configuration, answer, {
      pkceCodeVerifier: verifier,
      expectedNonce: nonce,
      expectedState: state,
      idTokenExpected: true,
    })
    const claims = tokens.claims()!
    if (!provider.userinfo) return claims
    const more = await client.fetchUserInfo(configuration, tokens.access_token, claims.sub)
    return { ...more, ...claims }
  }

  /** Asks a provider for what it publishes of itself. @throws the library's error where it does not answer */
  async reach(provider: OidcProvider): Promise<void> {
    await this.#configurationOf(provider)
  }

  #configurationOf(provider: OidcProvider): Promise<Configuration> {
    const key = JSON.stringify(provider)
    const cached = this.#discovered.get(key)
    if (cached && performance.now() - cached.at < DISCOVERY_MS) return cached.configuration
    const configuration = this.#discover(provider)
    this.#discovered.set(key, { configuration, at: performance.now() })
    // A provider that is away is asked again by the next sign-in.
    configuration.catch(() => this.#discovered.delete(key))
    return configuration
  }

  async #discover({ issuer, clientId, clientSecret }: OidcProvider): Promise<Configuration> {
    const client = await import('openid-client')
    const secretAuth: ClientAuth = (server, ...rest) => {
      const methods = server.token_endpoint_auth_methods_supported
      const isBasic = methods !== undefined && !methods.includes('client_secret_post')
      const auth = isBasic ? client.ClientSecretBasic : client.ClientSecretPost
      return auth(clientSecret)(server, ...rest)
    }
    const url = new URL(issuer)
    return client.discovery(
      url,
      clientId,
      {},
      clientSecret === undefined ? client.None() : secretAuth,
      {
        timeout: TIMEOUT_SECONDS,
        [client.customFetch]: this.#fetch,
        execute: [
          client.enableNonRepudiationChecks,
          // oxlint-disable-next-line typescript/no-deprecated -- Only for a provider on this machine.
          ...(url.protocol === 'http:' && isLoopback(url) ? [client.allowInsecureRequests] : []),
        ],
      },
    )
  }
}

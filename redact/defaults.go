package redact

import "strings"

// The lists are text, one entry between commas, because constants cannot be changed at run time.

// secretNames hide whatever they name.
const secretNames = `password, passwd, pwd, passphrase, pin, pin code, otp, mfa, totp, secret, client secret, api key, access key,
secret key, private key, signing key, encryption key, master key, token, access token, refresh token, id token, auth token,
session token, bearer, jwt, assertion, auth, authorization, proxy authorization, credential, credentials, session, session id,
sid, cookie, set cookie, csrf, xsrf, csrf token, xsrf token, connect sid, php sess id, j session id, x api key, x auth token,
x amz security token, x goog iam authorization token, cloud front signature, cloud front policy, cloud front key pair id,
certificate, pem, key store, connection string, dsn, mysql pwd, pg password, webhook secret, salt, seed phrase, mnemonic,
ssn, tax id, cvv, cvc, card number, pan, track data, track 1, track 2`

// suspectNames hide what looks random.
const suspectNames = `key, signature, sig, hmac, nonce, code, ticket, pass, private, sas, seed, verifier, challenge, license, grant`

// harmlessNames contain a word of the lists above and name no secret.
const harmlessNames = `operation key, idempotency key, public key, primary key, foreign key, partition key, sort key, cache key,
key id, key name, key type, token count, token limit, token budget, token usage, token type, key pair name`

// personalNames hide with Policy.PII only.
const personalNames = `ip, ip address, ip addr, remote addr, remote address, client ip, forwarded for, email, e mail, email address`

// commonWords may stay visible as names of members below a hidden name, beside the words of the lists above.
const commonWords = `user, username, login, name, type, kind, scheme, method, mode, realm, value, id, url, host, port, key, basic,
oauth, expires, expiry, at, in, old, new, current, confirm, account, client, server, data, header, headers, number, code, issuer,
subject, audience, scope, provider, tenant, region, role, version, format, public`

// signingParams are what makes a URL an authorisation. They are stripped; expiry, date, rights and algorithm stay.
const signingParams = `x-amz-signature, x-amz-credential, x-amz-security-token, awsaccesskeyid, signature,
x-goog-signature, x-goog-credential, googleaccessid,
sig, skoid, sktid, skt, ske, sks, skv, saoid, suoid, scid, si,
policy, key-pair-id, hash-algorithm,
ossaccesskeyid, x-oss-signature, x-oss-credential, security-token, x-oss-security-token, q-signature, q-ak, x-cos-security-token,
token, access_token, id_token, refresh_token, code, state, api_key, key, auth, hmac, sas, jwt`

// secretPlaces are hosts and a part of the path: who knows the path may post there. The host stays visible.
const secretPlaces = `hooks.slack.com/, discord.com/webhooks/, discordapp.com/webhooks/, api.telegram.org/bot, webhook.office.com/,
outlook.office.com/webhook/, hooks.zapier.com/, open.feishu.cn/hook/, open.larksuite.com/hook/, maker.ifttt.com/key/,
events.pagerduty.com/integration/, hook.make.com/, webhook.site/`

// providerKeys are prefixes of access keys, each with the least number of characters behind it.
const providerKeys = `AKIA 16, ASIA 16, ABIA 16, ACCA 16, AIza 30, ya29. 20, GOCSPX- 20, ghp_ 20, gho_ 20, ghu_ 20, ghs_ 20, ghr_ 20,
github_pat_ 20, glpat- 16, xoxa- 10, xoxb- 10, xoxp- 10, xoxr- 10, xoxs- 10, xapp- 10, sk_live_ 10, sk_test_ 10, rk_live_ 10,
rk_test_ 10, whsec_ 16, sk-ant- 16, sk-proj- 16, sk- 32, SG. 20, npm_ 20, pypi- 20, hf_ 20, dop_v1_ 20, shpat_ 20, shpss_ 20,
LTAI 12, AKID 12, AGE-SECRET-KEY- 20, hvs. 20, dckr_pat_ 16, lin_api_ 20, xkeysib- 20, pscale_tkn_ 16, sbp_ 20`

func list(s string) []string {
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

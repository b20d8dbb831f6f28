package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"
)

// signed is a row of the table of providers: what goes, what stays, in the order of the URL.
var signed = []struct{ name, url, view string }{
	{"S3 SigV4", "https://b.s3.example/q3.pdf?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=CANARY%2F20260101%2Fus&X-Amz-Date=20260101T000000Z&X-Amz-Expires=600&X-Amz-SignedHeaders=host&X-Amz-Security-Token=CANARY&X-Amz-Signature=CANARY",
		"https://b.s3.example/q3.pdf?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20260101T000000Z&X-Amz-Expires=600&X-Amz-SignedHeaders=host&[hidden]=3"},
	{"S3 SigV2", "https://b.s3.example/k?AWSAccessKeyId=CANARY&Expires=17&Signature=CANARY", "https://b.s3.example/k?Expires=17&[hidden]=2"},
	{"GCS V4", "https://storage.example/b/k?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Credential=CANARY&X-Goog-Date=2026&X-Goog-Expires=900&X-Goog-SignedHeaders=host&X-Goog-Signature=CANARY",
		"https://storage.example/b/k?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Date=2026&X-Goog-Expires=900&X-Goog-SignedHeaders=host&[hidden]=2"},
	{"GCS V2", "https://storage.example/b/k?GoogleAccessId=CANARY&Expires=17&Signature=CANARY", "https://storage.example/b/k?Expires=17&[hidden]=2"},
	{"Azure SAS", "https://a.blob.example/c/k?sv=2022&sp=r&st=2026-01-01&se=2026-02-01&spr=https&sip=1.2.3.4&sr=b&sig=CANARY%3D",
		"https://a.blob.example/c/k?sv=2022&sp=r&st=2026-01-01&se=2026-02-01&spr=https&sip=1.2.3.4&sr=b&[hidden]=1"},
	{"Azure SAS of a user", "https://a.blob.example/c/k?skoid=CANARY&sktid=CANARY&skt=CANARY&ske=CANARY&sks=CANARY&skv=CANARY&saoid=CANARY&suoid=CANARY&scid=CANARY&si=CANARY&sp=r&sig=CANARY",
		"https://a.blob.example/c/k?sp=r&[hidden]=11"},
	{"CloudFront", "https://d.cloudfront.example/k?Expires=17&Policy=CANARY&Signature=CANARY&Key-Pair-Id=CANARY&Hash-Algorithm=SHA256", "https://d.cloudfront.example/k?Expires=17&[hidden]=4"},
	{"CloudFront cookies", "CloudFront-Signature=CANARY; CloudFront-Policy=CANARY; CloudFront-Key-Pair-Id=CANARY", "CloudFront-Signature=[hidden]; CloudFront-Policy=[hidden]; CloudFront-Key-Pair-Id=[hidden]"},
	{"Alibaba V1", "https://b.oss.example/k?OSSAccessKeyId=CANARY&Expires=17&Signature=CANARY&security-token=CANARY", "https://b.oss.example/k?Expires=17&[hidden]=3"},
	{"Alibaba V4", "https://b.oss.example/k?x-oss-expires=60&x-oss-signature=CANARY&x-oss-credential=CANARY", "https://b.oss.example/k?x-oss-expires=60&[hidden]=2"},
	{"Tencent", "https://b.cos.example/k?q-sign-algorithm=sha1&q-ak=CANARY&q-sign-time=1;2&q-signature=CANARY&x-cos-security-token=CANARY", "https://b.cos.example/k?q-sign-algorithm=sha1&q-sign-time=1;2&[hidden]=3"},
	{"generic", "https://x.example/?token=CANARY&access_token=CANARY&id_token=CANARY&code=CANARY&state=CANARY&api_key=CANARY&key=CANARY&auth=CANARY&hmac=CANARY&signature=CANARY", "https://x.example/?[hidden]=10"},
	{"a webhook of a chat", "https://hooks.slack.com/services/T0/B0/CANARY", "https://hooks.slack.com/[hidden]"},
	{"a webhook with an encoded path", "https://discord.com/api/v10/w%65bhooks/1/CANARY?wait=true", "https://discord.com/[hidden]?wait=true"},
	{"a bot's token", "https://api.telegram.org/bot123:CANARY/sendMessage?chat_id=7", "https://api.telegram.org/[hidden]?chat_id=7"},
}

var shapes = []struct{ name, url, view string }{
	{"letter case", "https://x.example/?SIG=CANARY&x-AMZ-signature=CANARY&A=1", "https://x.example/?A=1&[hidden]=2"},
	{"order and repetition", "https://x.example/?a=1&sig=CANARY&b=2&sig=CANARY&a=3", "https://x.example/?a=1&b=2&a=3&[hidden]=2"},
	{"encoded names", "https://x.example/?s%69g=CANARY&X%2DAmz%2DSignature=CANARY&tok%2565n=CANARY&a=%2f", "https://x.example/?a=%2f&[hidden]=3"},
	{"an encoded equals sign", "https://x.example/?a=1&sig%3DCANARY", "https://x.example/?a=1&[hidden]=1"},
	{"a list", "https://x.example/?token[]=CANARY&a=1", "https://x.example/?a=1&[hidden]=1"},
	{"sensitive names", "https://x.example/?password=CANARY&user=bob&sessionId=CANARY", "https://x.example/?user=bob&[hidden]=2"},
	{"HTML", `<a href="https://x.example/?a=1&amp;sig=CANARY&amp;b=2">`, `<a href="https://x.example/?a=1&amp;b=2&[hidden]=1">`},
	{"an old separator", "https://x.example/?a=1;token=CANARY&b=2", "https://x.example/?a=1;token=[hidden]&b=2"},
	{"userinfo", "https://bob:CANARY@x.example/a", "https://[hidden]@x.example/a"},
	{"a token as the user", "https://CANARY@x.example/a.git", "https://[hidden]@x.example/a.git"},
	{"a password with a slash", "amqp://bob:12/CANARY@x.example/v", "amqp://[hidden]@x.example/v"},
	{"a fragment", "https://x.example/cb#access_token=CANARY&expires_in=3600", "https://x.example/cb#expires_in=3600&[hidden]=1"},
	{"a fragment with a query", "https://x.example/#/cb?token=CANARY&a=1", "https://x.example/#/cb?a=1&[hidden]=1"},
	{"query and fragment", "https://x.example/?sig=CANARY#id_token=CANARY", "https://x.example/?[hidden]=1#[hidden]=1"},
	{"a URL in a parameter", "https://x.example/?to=https://y.example/?sig=CANARY", "https://x.example/?to=https://y.example/?[hidden]=1"},
	{"an encoded URL in a parameter", "https://x.example/?to=https%3A%2F%2Fy.example%2F%3Fa%3D1%26sig%3DCANARY&b=2", "https://x.example/?to=https%3A%2F%2Fy.example%2F%3Fa%3D1%26%5Bhidden%5D%3D1&b=2"},
	{"encoded twice", "https://x.example/?to=" + url.QueryEscape("https://y.example/?to="+url.QueryEscape("https://z.example/?sig=CANARY&a=1")), "https://x.example/?to=" + url.QueryEscape("https://y.example/?to="+url.QueryEscape("https://z.example/?a=1&[hidden]=1"))},
	{"an encoded URL in the path", "https://x.example/go/https%3A%2F%2Fbob%3ACANARY%40y.example", "https://x.example/go/https%3A%2F%2F%5Bhidden%5D%40y.example"},
	{"a URL in the path", "https://x.example/web/ftp://bob:CANARY@y.example/a", "https://x.example/web/ftp://[hidden]@y.example/a"},
	{"an encoded URL alone", "see https%3A%2F%2Fx.example%2F%3Fsig%3DCANARY now", "see https%3A%2F%2Fx.example%2F%3F%5Bhidden%5D%3D1 now"},
	{"JSON in a parameter", `https://x.example/?q=%7B%22password%22%3A%22CANARY%22%2C%22a%22%3A1%7D`, `https://x.example/?q=%7B%22password%22%3A%22%5Bhidden%5D%22%2C%22a%22%3A1%7D`},
	{"a parameter of a segment", "https://x.example/a;jsessionid=CANARY/b", "https://x.example/a;jsessionid=[hidden]/b"},
	{"relative", "/download/q3.pdf?sig=CANARY&v=2", "/download/q3.pdf?v=2&[hidden]=1"},
	{"a query alone", "?sig=CANARY&v=2", "?v=2&[hidden]=1"},
	{"without a scheme", "//bob:CANARY@x.example/?sig=CANARY", "//[hidden]@x.example/?[hidden]=1"},
	{"prose", "see https://x.example/a?sig=CANARY, then (https://y.example/?b=1&key=CANARY).", "see https://x.example/a?[hidden]=1, then (https://y.example/?b=1&[hidden]=1)."},
	{"markdown", "[q3](https://x.example/q3_(1).pdf?sp=r&sig=CANARY) and ![i](/i?token=CANARY)", "[q3](https://x.example/q3_(1).pdf?sp=r&[hidden]=1) and ![i](/i?[hidden]=1)"},
	{"invalid: a port", "https://x.example:CANARY/", "[hidden]"},
	{"invalid: an escape", "https://x.example/%zzCANARY", "[hidden]"},
	{"invalid: a host", "get http://[CANARY/ now", "get [hidden] now"},
	{"a password with a question mark", "https://bob:CANARY?x@y.example/", "[hidden]"},
	{"what was hidden before", "https://x.example/?a=1&[hidden]=2&sig=CANARY", "https://x.example/?a=1&[hidden]=3"},
}

func TestURLs(t *testing.T) {
	t.Parallel()
	r := New(nil)
	for _, c := range append(signed[:len(signed):len(signed)], shapes...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := r.Text(c.url)
			if got != c.view {
				t.Errorf("%s\n got %s\nwant %s", c.url, got, c.view)
			}
			if strings.Contains(got, "CANARY") {
				t.Error("leak")
			}
			if again := r.Text(got); again != got {
				t.Errorf("the view of the view is %s", again)
			}
		})
	}
}

// A view of a signed URL does not authorise: the signer that takes the original refuses it.
func TestViewDoesNotAuthorise(t *testing.T) {
	t.Parallel()
	sign := func(u *url.URL, q url.Values) string {
		q.Del("X-Amz-Signature")
		mac := hmac.New(sha256.New, []byte("key"))
		mac.Write([]byte(u.Host + u.Path + "?" + q.Encode()))
		return hex.EncodeToString(mac.Sum(nil))
	}
	authorises := func(s string) bool {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		got := u.Query().Get("X-Amz-Signature")
		return got != "" && got == sign(u, u.Query())
	}
	u, _ := url.Parse("https://files.example/q3.pdf?X-Amz-Credential=a&X-Amz-Expires=600")
	link := u.String() + "&X-Amz-Signature=" + sign(u, u.Query())
	if !authorises(link) {
		t.Fatal("the original does not authorise")
	}
	if view := New(nil).Text(link); authorises(view) || !strings.Contains(view, "X-Amz-Expires=600") {
		t.Errorf("the view authorises, or lost its expiry: %s", view)
	}
}

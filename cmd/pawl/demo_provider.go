package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/pawl-dev/pawl/effect"
)

// payTime is how long a payment may be on its way: after that the provider does not get the request any more.
const payTime = 5 * time.Second

// keyHeader carries an operation's key to the post office.
const keyHeader = "Idempotency-Key"

// provider is the address of the payment provider, which also carries mail, as the agent's code calls it.
type provider string

// client sends each request once: no connection is used twice, and no redirect is followed.
func client() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// pay makes a payment, a second one if it is called a second time.
func (p provider) pay(ctx context.Context, op effect.Op, c claim) (string, error) {
	return p.post(ctx, "/payments", "", payment{Ref: op.Ref.String(), claim: c})
}

// find tells what became of a payment. While the request may still be on its way nobody can say that there is none.
func (p provider) find(ctx context.Context, op effect.Op, _ claim) (string, bool, error) {
	id, err := p.call(ctx, http.MethodGet, "/payments?ref="+url.QueryEscape(op.Ref.String()), "", nil)
	if absent := (*refusal)(nil); errors.As(err, &absent) && absent.status == http.StatusNotFound {
		if time.Since(op.Sent) <= payTime {
			return "", false, fmt.Errorf("the provider has no payment %s yet, and it may be on its way", op.Ref)
		}
		return "", false, nil
	}
	return id, err == nil, err
}

// mail sends a letter. The post office sends one for each key.
func (p provider) mail(ctx context.Context, op effect.Op, l letter) (string, error) {
	return p.post(ctx, "/mails", op.Key, l)
}

func (p provider) post(ctx context.Context, path, key string, body any) (string, error) {
	doc, err := json.Marshal(body)
	if err != nil {
		return "", effect.NotSent(err)
	}
	id, err := p.call(ctx, http.MethodPost, path, key, doc)
	refused, dial := (*refusal)(nil), (*net.OpError)(nil)
	switch {
	case errors.As(err, &refused) && refused.status < 500:
		return "", effect.Rejected(err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return "", effect.NotSent(err) // there was nobody to send it to
	}
	return id, err
}

// refusal is an answer that is no receipt.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the provider answered %d: %s", r.status, r.text)
}

// call returns the body of an answer.
func (p provider) call(ctx context.Context, method, path, key string, body []byte) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+string(p)+path, bytes.NewReader(body))
	if err != nil {
		return "", effect.NotSent(err)
	}
	if key != "" {
		req.Header.Set(keyHeader, key)
	}
	resp, err := client().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	doc, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode/100 != 2 {
		err = &refusal{resp.StatusCode, string(bytes.TrimSpace(doc))}
	}
	return string(doc), err
}

// statement asks for all that the provider did.
func (p provider) statement(ctx context.Context) (s statement, err error) {
	doc, err := p.call(ctx, http.MethodGet, "/statement", "", nil)
	if err == nil {
		err = json.Unmarshal([]byte(doc), &s)
	}
	return s, err
}

// holdNext makes the provider keep the answer to the next payment to itself, after it made it.
func (p provider) holdNext(ctx context.Context) error {
	_, err := p.call(ctx, http.MethodPost, "/hold", "", nil)
	return err
}

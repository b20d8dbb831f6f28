package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/cli"
)

// payment is a row of the provider's ledger.
type payment struct {
	ID  string `json:"id,omitempty"`
	Ref string `json:"ref"` // as the sender names it; the provider does not care whether it knows it
	claim
}

// entry is a line of the ledger's file.
type entry struct {
	What string   `json:"what"`
	Key  string   `json:"key,omitempty"`
	Row  *payment `json:"payment,omitempty"`
	Mail *letter  `json:"mail,omitempty"`
}

// What a ledger's entries say.
const (
	askedToPay  = "payment requested"
	didPay      = "paid"
	askedAbout  = "asked about a payment"
	askedToMail = "mail requested"
	didMail     = "mailed"
)

// statement is all that the provider saw and did.
type statement struct {
	Requests     int       `json:"payment_requests"`
	Rows         []payment `json:"rows"`
	LookUps      int       `json:"look_ups"`
	MailRequests int       `json:"mail_requests"`
	Mails        []string  `json:"mails"` // their keys
}

// since is how many requests came after an earlier statement: for payments, look-ups and mails.
func (s statement) since(b statement) (payments, lookUps, mails int) {
	return s.Requests - b.Requests, s.LookUps - b.LookUps, s.MailRequests - b.MailRequests
}

// ledger is the provider's file: it alone says what happened out there.
type ledger struct{ path string }

func (l ledger) add(e entry) error {
	doc, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(doc, '\n'))
	return errors.Join(err, f.Close())
}

func (l ledger) read() (statement, error) {
	s := statement{Rows: []payment{}, Mails: []string{}}
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return s, fmt.Errorf("%s: %w", l.path, err)
		}
		switch e.What {
		case askedToPay:
			s.Requests++
		case didPay:
			s.Rows = append(s.Rows, *e.Row)
		case askedAbout:
			s.LookUps++
		case askedToMail:
			s.MailRequests++
		case didMail:
			s.Mails = append(s.Mails, e.Key)
		}
	}
	return s, lines.Err()
}

// The lines that the provider says on its standard output.
const (
	sayListening = "listening" // and its address
	sayPaid      = "paid"      // and the payment's id: it is in the ledger, and the answer is held back
)

// counter is the provider's side of the calls.
type counter struct {
	ledger ledger
	out    io.Writer
	mu     sync.Mutex
	hold   bool
}

// providerCommand is the payment provider as a process. It ends with its standard input.
func providerCommand(p *cli.Program) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "demo-provider", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			server := &http.Server{Handler: (&counter{ledger: ledgerOf(dir), out: p.Stdout}).routes(), ReadHeaderTimeout: payTime}
			go func() {
				_, _ = io.Copy(io.Discard, p.Stdin)
				_ = server.Close()
			}()
			fmt.Fprintln(p.Stdout, sayListening, at.Addr())
			if err := server.Serve(at); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "")
	return c
}

func (c *counter) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve func(r *http.Request, body []byte) (string, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
			answer := ""
			if err == nil {
				answer, err = serve(r, body)
			}
			refused := (*refusal)(nil)
			switch {
			case errors.As(err, &refused):
				http.Error(w, refused.text, refused.status)
			case err != nil:
				http.Error(w, err.Error(), http.StatusInternalServerError)
			default:
				_, _ = io.WriteString(w, answer)
			}
		})
	}
	handle("POST /payments", c.pay)
	handle("GET /payments", c.find)
	handle("POST /mails", c.mail)
	handle("GET /statement", c.statement)
	handle("POST /hold", func(*http.Request, []byte) (string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.hold = true
		return "", nil
	})
	return mux
}

func (c *counter) pay(r *http.Request, body []byte) (string, error) {
	var row payment
	if err := json.Unmarshal(body, &row); err != nil || row.Cents <= 0 {
		return "", &refusal{http.StatusBadRequest, "this is no payment"}
	}
	held, err := c.book(&row)
	if err != nil {
		return "", err
	}
	if held {
		fmt.Fprintln(c.out, sayPaid, row.ID)
		<-r.Context().Done() // until whoever sent it is gone
		return "", context.Cause(r.Context())
	}
	return row.ID, nil
}

// book makes a payment. It does not look for an earlier one: every request is a payment.
func (c *counter) book(row *payment) (held bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ledger.add(entry{What: askedToPay}); err != nil {
		return false, err
	}
	s, err := c.ledger.read()
	if err != nil {
		return false, err
	}
	row.ID = fmt.Sprintf("pay-%04d", len(s.Rows)+1)
	held, c.hold = c.hold, false
	return held, c.ledger.add(entry{What: didPay, Row: row})
}

func (c *counter) find(r *http.Request, _ []byte) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.ledger.read()
	if err := errors.Join(err, c.ledger.add(entry{What: askedAbout})); err != nil {
		return "", err
	}
	for _, row := range s.Rows {
		if row.Ref == r.FormValue("ref") {
			return row.ID, nil
		}
	}
	return "", &refusal{http.StatusNotFound, "there is no such payment"}
}

func (c *counter) mail(r *http.Request, body []byte) (string, error) {
	var l letter
	key := r.Header.Get(keyHeader)
	if err := json.Unmarshal(body, &l); err != nil || key == "" {
		return "", &refusal{http.StatusBadRequest, "this is no mail, or it has no key"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.ledger.read()
	if err := errors.Join(err, c.ledger.add(entry{What: askedToMail, Key: key})); err != nil {
		return "", err
	}
	for i, k := range s.Mails {
		if k == key {
			return fmt.Sprintf("mail-%04d", i+1), nil
		}
	}
	return fmt.Sprintf("mail-%04d", len(s.Mails)+1), c.ledger.add(entry{What: didMail, Key: key, Mail: &l})
}

func (c *counter) statement(*http.Request, []byte) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.ledger.read()
	if err != nil {
		return "", err
	}
	doc, err := json.Marshal(s)
	return string(doc), err
}

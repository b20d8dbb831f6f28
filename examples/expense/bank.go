package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pawl-dev/pawl/effect"
)

// Transfer is what the bank is told.
type Transfer struct {
	To    string `json:"to"`
	Cents int64  `json:"cents"`
	Text  string `json:"text,omitempty"`
}

// Receipt is what it answers.
type Receipt struct {
	ID string `json:"id"`
}

// bank is a scripted bank: a file with a line for each transfer that it made. It would make a second one of the same
// key, as many banks do, and can be asked what it did.
type bank struct{ path string }

type booked struct {
	Key string `json:"key"`
	Transfer
}

// Transfer makes one.
func (b bank) Transfer(_ context.Context, op effect.Op, t Transfer) (Receipt, error) {
	done, err := b.statement()
	if err != nil {
		return Receipt{}, effect.NotSent(err)
	}
	line, err := json.Marshal(booked{op.Key, t})
	if err != nil {
		return Receipt{}, effect.NotSent(err)
	}
	f, err := os.OpenFile(b.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return Receipt{}, effect.NotSent(err)
	}
	_, err = f.Write(append(line, '\n'))
	return receipt(len(done)), errors.Join(err, f.Close()) // a failed write may have been one: the outcome is unknown
}

// Find tells what became of a transfer.
func (b bank) Find(_ context.Context, op effect.Op, _ Transfer) (Receipt, bool, error) {
	done, err := b.statement()
	for i, d := range done {
		if d.Key == op.Key {
			return receipt(i), true, nil
		}
	}
	return Receipt{}, false, err
}

func receipt(i int) Receipt { return Receipt{fmt.Sprintf("tr-%03d", i+1)} }

// statement is all that the bank did.
func (b bank) statement() ([]booked, error) {
	f, err := os.Open(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var done []booked
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var d booked
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return nil, err
		}
		done = append(done, d)
	}
	return done, lines.Err()
}

package memdb

import "crypto/rand"

type member struct {
	db *DB
	id string
}

func (db *DB) newMember() *member {
	m := &member{db: db, id: rand.Text()}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.members[m.id] = true
	return m
}

func (m *member) ID() string { return m.id }

func (m *member) Close() error {
	m.db.mu.Lock()
	defer m.db.mu.Unlock()
	delete(m.db.members, m.id)
	return nil
}

func (db *DB) alive(owner string) bool {
	if owner == "" {
		return false
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.members[owner]
}

package house

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/effect"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storage"
)

// Backup writes a copy of the database to a file that must not exist, while everything goes on. The key is not in it:
// keep the key file too, and somewhere else.
func (h *House) Backup(ctx context.Context, path string) error {
	db, ok := h.DB.(interface {
		Backup(ctx context.Context, path string) error
	})
	if !ok {
		return fmt.Errorf("pawl: a database in %s has no backup; nothing was written", h.DB.Info().Driver)
	}
	return db.Backup(ctx, path)
}

// RestoreOptions are who restores, why, and whether a database that is there may be replaced.
type RestoreOptions struct {
	Replace bool
	By      pawl.Actor
	Reason  string
}

// Restore puts a backup in the place of a database file that no program has open. Before it gets its place it is marked
// as restored: until somebody has reconciled what happened since the backup, effects are not sent anew to targets that
// could not recognise them. The key file must be beside the database, or beside the backup, from where it is copied: a
// backup holds no key, and without it nothing that is sealed could be read.
func Restore(ctx context.Context, backup, dsn string, o RestoreOptions) (*sqlite.Restored, error) {
	driver, path, err := place(dsn)
	if err != nil {
		return nil, err
	}
	if driver != file {
		return nil, fmt.Errorf("pawl: a backup is restored to a file, not to %q; nothing was changed", dsn)
	}
	made, err := keyFor(backup, path)
	if err != nil {
		return nil, err
	}
	out, err := sqlite.Restore(ctx, backup, path, &sqlite.RestoreOptions{
		Replace: o.Replace,
		Prepare: func(ctx context.Context, path string, taken time.Time) error {
			db, err := OpenFile(path)
			if err != nil {
				return err
			}
			err = db.Update(ctx, func(_ context.Context, tx storage.Tx) error {
				return effect.MarkRestored(tx, taken, o.By, o.Reason)
			})
			return errors.Join(err, db.Close())
		},
	})
	if err != nil && made {
		err = errors.Join(err, os.Remove(KeyFile(path)))
	}
	return out, err
}

// keyFor makes sure that the key is where the database will look for it, and says whether it had to be copied there.
func keyFor(backup, path string) (made bool, err error) {
	if _, err := os.Stat(KeyFile(path)); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	key, err := os.ReadFile(KeyFile(backup))
	if errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("pawl: %s is not there, and without the key nothing sealed in the backup can be read; put the key file of the "+
			"database there; nothing was changed", KeyFile(path))
	}
	if err != nil {
		return false, err
	}
	f, err := os.OpenFile(KeyFile(path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	_, err = f.Write(key)
	return true, errors.Join(err, f.Sync(), f.Close())
}

package plugins

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// record is the state of an attachment, from before its first plugin runs until the last one has removed it.
type record struct {
	Attachment cni.Attachment
	// File is the configuration's file, Config its content.
	File   string
	Config json.RawMessage
}

// records keeps them in a directory, one file each. They need not survive a restart of the host, which ends the
// namespaces, too.
type records struct {
	dir string
	log *slog.Logger
}

func (r records) path(key cni.Key) string {
	return filepath.Join(r.dir, key.ContainerID+","+key.Interface+".json")
}

func (r records) write(rec record) error {
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(r.path(rec.Attachment.Key()), data, 0o600)
}

// read returns nil if there is no record. An unreadable one counts as missing; then the present configuration is used.
func (r records) read(key cni.Key) (*record, error) {
	data, err := os.ReadFile(r.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	var rec record
	if err := json.Unmarshal(data, &rec); err != nil || rec.Attachment.Key() != key {
		r.log.Warn("The record of an attachment cannot be read", "attachment", key.String(), "file", r.path(key), "error", err)
		return nil, nil //nolint:nilnil // as above
	}
	return &rec, nil
}

func (r records) remove(key cni.Key) error { return ignoreMissing(os.Remove(r.path(key))) }

func (r records) list() ([]cni.Key, error) {
	files, err := os.ReadDir(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing attachments: %w", err)
	}
	var keys []cni.Key
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".json")
		id, ifname, comma := strings.Cut(name, ",")
		if ok && comma {
			keys = append(keys, cni.Key{ContainerID: id, Interface: ifname})
		}
	}
	slices.SortFunc(keys, func(a, b cni.Key) int { return strings.Compare(a.String(), b.String()) })
	return keys, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

package cluster

import (
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/wal"
)

// openDir opens the durable store of Options.Dir.
func (c *Cluster) openDir() (storage.Store, error) {
	s, err := wal.Open(c.options.Dir, wal.Options{Logger: c.log})
	if err != nil {
		return nil, err
	}
	c.closer = s.Close
	return s, nil
}

package cluster

import "github.com/keelson-dev/keelson/storage/wal"

// openDir opens the durable store of Options.Dir.
func (c *Cluster) openDir() error {
	s, err := wal.Open(c.options.Dir, wal.Options{Logger: c.log})
	if err != nil {
		return err
	}
	c.store, c.closer = s, s.Close
	return nil
}

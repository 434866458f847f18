package cluster

import "errors"

func (c *Cluster) openDir() error { return errors.New("not yet") }

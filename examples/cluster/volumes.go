package main

import (
	"fmt"
	"path/filepath"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/localvolumes"
	nodevolumes "github.com/keelson-dev/keelson/node/localvolumes"
)

// volumes is the directory of a node's volumes. Those of hosts of their own outlive them.
func (m *machines) volumes(node string) string {
	if m.wire != nil {
		return filepath.Join(m.settings.dataDir, "volumes", node)
	}
	return filepath.Join(m.dir(node), "volumes")
}

// addVolumes lets the cluster provision volumes in directories of its nodes, which are in the data directory, or, on
// simulated nodes, in name only.
func (s *settings) addVolumes(nodes *machines, o *cluster.Options) {
	if s.disabled("controllers") || s.disabled("nodes") {
		return // whoever replaces them has storage classes of their own
	}
	var with localvolumes.Options
	if nodes != nil {
		roots := map[string]string{}
		for i := range s.nodes {
			name := fmt.Sprintf("node-%d", i)
			roots[name] = nodes.volumes(name)
		}
		with.Directories = nodevolumes.New(func(node string) string { return roots[node] })
	}
	o.Extensions = append(o.Extensions, localvolumes.Extension(with))
	o.Components = append(o.Components, localvolumes.Component(with))
}

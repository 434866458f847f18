package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

type conflist struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"`
	Plugins    []any  `json:"plugins"`
}

type bridgePlugin struct {
	Type             string          `json:"type"`
	Bridge           string          `json:"bridge"`
	IsGateway        bool            `json:"isGateway"`
	IsDefaultGateway bool            `json:"isDefaultGateway"`
	IPMasq           bool            `json:"ipMasq"`
	HairpinMode      bool            `json:"hairpinMode"`
	MTU              int             `json:"mtu,omitempty"`
	Capabilities     map[string]bool `json:"capabilities"`
	IPAM             hostLocal       `json:"ipam"`
}

type hostLocal struct {
	Type    string      `json:"type"`
	DataDir string      `json:"dataDir"`
	Ranges  [][]ipRange `json:"ranges"`
}

type ipRange struct {
	Subnet  string `json:"subnet"`
	Gateway string `json:"gateway"`
}

type chained struct {
	Type         string          `json:"type"`
	Backend      string          `json:"backend,omitempty"`
	SNAT         bool            `json:"snat,omitempty"`
	Capabilities map[string]bool `json:"capabilities"`
}

// Device is the name of the bridge on the machine.
func (b *Bridge) Device() string { return b.options.Bridge }

// Config returns the CNI configuration that attaches pods to the bridge: the content of a *.conflist file. It depends
// only on the options.
func (b *Bridge) Config() []byte {
	o := b.options
	main := bridgePlugin{
		Type: "bridge", Bridge: o.Bridge, IsGateway: true, IsDefaultGateway: true,
		HairpinMode: !o.NoHairpin, MTU: o.MTU, Capabilities: map[string]bool{"ips": true, "mac": true},
		IPAM: hostLocal{Type: "host-local", DataDir: o.DataDir},
	}
	for i, gateway := range b.Gateways() {
		main.IPAM.Ranges = append(main.IPAM.Ranges, []ipRange{{Subnet: b.subnets[i].String(), Gateway: gateway.Addr().String()}})
	}
	list := conflist{CNIVersion: o.CNIVersion, Name: o.Network, Plugins: []any{main}}
	if !o.NoPortMap {
		list.Plugins = append(list.Plugins, chained{
			Type: "portmap", Backend: o.PortMapBackend, SNAT: true, Capabilities: map[string]bool{"portMappings": true},
		})
	}
	if o.Bandwidth {
		list.Plugins = append(list.Plugins, chained{Type: "bandwidth", Capabilities: map[string]bool{"bandwidth": true}})
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(list); err != nil {
		return nil // strings, numbers and booleans always encode
	}
	return out.Bytes()
}

// WriteFile writes data to the file atomically, and creates its directory. If the content is the same the file is not
// touched, so that watchers see no change. It reports whether it wrote.
func WriteFile(path string, data []byte) (changed bool, err error) {
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, data) {
		return false, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	if err := atomicfile.Write(path, data, 0o644); err != nil {
		return false, err
	}
	return true, nil
}

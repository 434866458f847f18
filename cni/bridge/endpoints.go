package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// Endpoint is an address of a pod, and the hardware address behind it.
type Endpoint struct {
	Address  netip.Addr       // of the pod
	Hardware net.HardwareAddr // of the pod's device, 6 bytes
}

// ResultDir is the directory in which the runtime's libcni caches the results of attachments, also of other networks.
func (b *Bridge) ResultDir() string { return filepath.Join(b.options.CacheDir, "results") }

// Endpoints returns the pod's endpoints that a file of ResultDir tells of: none if it is about another network, or if the
// addresses are not, or no longer, leased to that pod.
func (b *Bridge) Endpoints(file string) ([]Endpoint, error) {
	if !strings.HasPrefix(filepath.Base(file), b.options.Network+"-") {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var cached struct {
		NetworkName, ContainerID string
		Result                   struct {
			Interfaces []struct{ Mac, Sandbox string }
			IPs        []struct {
				Address   netip.Prefix
				Interface *int
			}
		}
	}
	if err := json.Unmarshal(data, &cached); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if cached.NetworkName != b.options.Network { // the prefix may also belong to a longer name
		return nil, nil
	}
	var all []Endpoint
	for _, ip := range cached.Result.IPs {
		if ip.Interface == nil || *ip.Interface < 0 || *ip.Interface >= len(cached.Result.Interfaces) {
			continue
		}
		device := cached.Result.Interfaces[*ip.Interface]
		hardware, err := net.ParseMAC(device.Mac)
		if err != nil || len(hardware) != 6 || device.Sandbox == "" {
			continue
		}
		lease, err := os.ReadFile(filepath.Join(b.leaseDir(), ip.Address.Addr().String()))
		if id, _, _ := strings.Cut(string(lease), "\n"); err == nil && strings.TrimSpace(id) == cached.ContainerID {
			all = append(all, Endpoint{ip.Address.Addr(), hardware})
		}
	}
	return all, nil
}

// Learn has the host know the endpoints, instead of others that had their addresses before.
func (b *Bridge) Learn(ctx context.Context, endpoints []Endpoint) error {
	var s strings.Builder
	for _, e := range endpoints {
		fmt.Fprintf(&s, "neighbor replace %s lladdr %s dev %s nud stale\n", e.Address, e.Hardware, b.options.Bridge)
	}
	if _, err := b.options.Run(ctx, []byte(s.String()), "ip", "-batch", "-"); err != nil {
		return fmt.Errorf("neighbors of bridge %s: %w", b.options.Bridge, err)
	}
	return nil
}

package bridge_test

import (
	"bytes"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cni/plugins"
	"github.com/keelson-dev/keelson/internal/nettest"
)

// BenchmarkAttachment compares the bridge's configuration with those that upstream's examples use:
// the medians of Add and Delete, in milliseconds.
func BenchmarkAttachment(b *testing.B) {
	masq := func(backend string) func([]byte) []byte {
		return func(config []byte) []byte {
			return bytes.Replace(config, []byte(`"ipMasq": false`), []byte(`"ipMasq": true, "ipMasqBackend": "`+backend+`"`), 1)
		}
	}
	same := func(config []byte) []byte { return config }
	port := []cni.PortMapping{{HostPort: 28080, ContainerPort: 80}}
	for _, bench := range []struct {
		name    string
		options bridge.Options
		change  func([]byte) []byte
		ports   []cni.PortMapping
	}{
		{"bridge", bridge.Options{NoPortMap: true}, same, nil},
		{"bridge,portmap", bridge.Options{}, same, nil},
		{"bridge,portmap,bandwidth", bridge.Options{Bandwidth: true}, same, nil},
		{"bridge,portmap/port", bridge.Options{}, same, port},
		{"bridge,portmap/port/iptables", bridge.Options{PortMapBackend: "iptables"}, same, port},
		{"bridge/masq=iptables", bridge.Options{NoPortMap: true}, masq("iptables"), nil},
		{"bridge/masq=nftables", bridge.Options{NoPortMap: true}, masq("nftables"), nil},
		{"bridge,portmap/masq=iptables", bridge.Options{}, masq("iptables"), nil},
	} {
		b.Run(bench.name, func(b *testing.B) {
			nettest.Plugins(b)
			nettest.Host(b)
			bench.options.DataDir = b.TempDir()
			v4, err := bridge.New(subnets(9)[:1], bench.options)
			if err != nil {
				b.Fatal(err)
			}
			n, dir := start(b, v4, b.TempDir()), nettest.Dir(b)
			if _, err := bridge.WriteFile(n.conf, bench.change(n.bridge.Config())); err != nil {
				b.Fatal(err)
			}
			measure(b, n.network, dir, bench.ports)
		})
	}
}

func measure(b *testing.B, network *plugins.Network, dir string, ports []cni.PortMapping) {
	b.Helper()
	var adds, deletes, addCPU, deleteCPU []time.Duration
	for i := range b.N {
		name := fmt.Sprintf("pod%d", i)
		a := cni.Attachment{ContainerID: name, NetNS: nettest.Namespace(b, dir, name), PortMappings: ports}
		start, startCPU := time.Now(), spent(b)
		if _, err := network.Add(b.Context(), a); err != nil {
			b.Fatal(err)
		}
		added, addedCPU := time.Now(), spent(b)
		if err := network.Delete(b.Context(), a); err != nil {
			b.Fatal(err)
		}
		adds, deletes = append(adds, added.Sub(start)), append(deletes, time.Since(added))
		addCPU, deleteCPU = append(addCPU, addedCPU-startCPU), append(deleteCPU, spent(b)-addedCPU)
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2].Microseconds()) / 1000
	}
	b.ReportMetric(median(adds), "ms/add")
	b.ReportMetric(median(deletes), "ms/delete")
	b.ReportMetric(median(addCPU), "cpu-ms/add")
	b.ReportMetric(median(deleteCPU), "cpu-ms/delete")
	b.ReportMetric(0, "ns/op")
}

// spent is the processor time of the commands that have been run: it says more than the clock on a
// machine that has other things to do.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

package plugins_test

import (
	"testing"

	"github.com/keelson-dev/keelson/cni/plugins"
)

// FuzzResult: whatever plugins write, what comes of it is an error or makes sense.
func FuzzResult(f *testing.F) {
	for _, text := range []string{
		`{"cniVersion": "1.0.0", "interfaces": [null, {"name": "eth0", "sandbox": "/ns"}], "ips": [{"address": "10.1.2.3/24", "gateway": "10.1.2.1", "interface": 7}, null], "routes": [{"dst": "::/0", "gw": "fd00::1"}, null]}`,
		`{"cniVersion": "0.4.0", "ips": [{"version": "6", "address": "::ffff:10.1.2.3/120"}], "dns": {"nameservers": ["x"]}}`,
		`{"cniVersion": "0.2.0", "ip4": {"ip": "10.1.2.3/24", "gateway": "10.1.2.1", "routes": [{"dst": "0.0.0.0/0"}]}}`,
		`{"cniVersion": "1.1.0", "interfaces": [{"mtu": -1}], "routes": [{"dst": "10.0.0.0/8", "mtu": 5, "table": 3}]}`, "null", "{}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := plugins.Result(data)
		if err != nil {
			return
		}
		for _, ip := range r.IPs {
			if !ip.Address.IsValid() || ip.Interface >= len(r.Interfaces) || ip.Interface < -1 || ip.Gateway.Is4In6() {
				t.Errorf("%s: address %+v", data, ip)
			}
		}
		for _, route := range r.Routes {
			if !route.Destination.IsValid() {
				t.Errorf("%s: route %+v", data, route)
			}
		}
		for _, ip := range r.PodIPs() {
			if !ip.IsValid() {
				t.Errorf("%s: %v", data, r.PodIPs())
			}
		}
	})
}

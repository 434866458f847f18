package volume_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/volume"
)

// BenchmarkNginx measures the default volumes of every pod: prepared, mounted and released, and a sync without changes.
func BenchmarkNginx(b *testing.B) {
	s := newServer(rootCA())
	for name, rootless := range map[string]bool{"mounts": false, "rootless": true} {
		if !rootless {
			needMounts(b)
		}
		v, _ := node(b, s, volume.Options{Rootless: rootless})
		n := 0
		uid := func() types.UID { n++; return types.UID(fmt.Sprint(name, n)) }
		b.Run(name+"/up", func(b *testing.B) {
			for b.Loop() {
				p := pod(apiAccess())
				p.UID = uid()
				if err := v.Prepare(b.Context(), p); err != nil {
					b.Fatal(err)
				}
				if _, err := v.Mounts(b.Context(), request(p)); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := v.Release(b.Context(), p.UID); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
		b.Run(name+"/down", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				p := pod(apiAccess())
				p.UID = uid()
				prepare(b, v, p)
				mounts(b, v, request(p))
				b.StartTimer()
				if err := v.Release(b.Context(), p.UID); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/again", func(b *testing.B) {
			p := pod(apiAccess())
			prepare(b, v, p)
			for b.Loop() {
				if err := v.Prepare(b.Context(), p); err != nil {
					b.Fatal(err)
				}
			}
			release(b, v, "/nowhere", p.UID)
		})
	}
}

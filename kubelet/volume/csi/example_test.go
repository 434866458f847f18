package csi_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/kubelet/volume"
	"github.com/keelson-dev/keelson/kubelet/volume/csi"
)

// The drivers of a node are the plugin of its volumes. Beside these, Run registers them.
func Example() {
	drivers, err := csi.New("/var/lib/kubelet", "node-1", csi.Sources{}, csi.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = volume.New("/var/lib/kubelet", volume.Sources{CSI: drivers}, volume.Options{})
	fmt.Println(err)
	// Output: <nil>
}

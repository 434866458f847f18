package deviceplugin_test

import (
	"log"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/deviceplugin"
)

// A kubelet's host with device plugins. Their Run belongs to the node's others.
func ExampleNew() {
	plugins, err := deviceplugin.New("/var/lib/kubelet", deviceplugin.Options{})
	if err != nil {
		log.Fatal(err)
	}
	host := kubelet.Host{Devices: kubelet.Devices{Plugins: plugins}}
	_ = host // for kubelet.Options, beside plugins.Run(ctx)
}

package schedulerconfig_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/scheduler/schedulerconfig"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "scheduler.yaml")
	_ = os.WriteFile(path, []byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: plain
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: NodeResourcesFit, weight: 2}, {name: DefaultBinder}]
`), 0o600)
	c, err := schedulerconfig.Open(path, schedulerconfig.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range c.Profiles {
		fmt.Println(p.SchedulerName, len(p.Plugins), p.Plugins[len(p.Plugins)-1].Plugin.Name())
	}
	// Output:
	// default-scheduler 18 NodeDeclaredFeatures
	// plain 1 NodeResourcesFit
}

package auditconfig_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/auditconfig"
)

// A cluster that is audited by a policy in a file, into a sink of its own. Run is called beside the cluster, and ended after it.
func Example() {
	dir, err := os.MkdirTemp("", "audit")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(file, []byte("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	a, err := auditconfig.Open(auditconfig.Options{PolicyFile: file, Sink: &audit.Memory{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var o cluster.Options
	o.Server.Audit, o.Extensions = a.Log(), append(o.Extensions, a.Extension())
	fmt.Println(o.Extensions[0].Name)
	// Output: audit-config
}

package main

// suite is the tests of one package.
type suite struct {
	module, version string
	path            string // of the package in its module
	// nested are modules that the module's go.mod replaces by directories, which a module in the cache lacks.
	nested map[string]string
	// sources is set if the tests find files beside their sources by the paths in the binary.
	sources bool
	// without are tests to leave out, by their names.
	without []exception
}

// exception is why tests are left out.
type exception struct {
	names string // a regular expression
	why   string
}

// classes returns the suites by class.
func classes() map[string][]suite {
	return map[string][]suite{"controllerruntime": controllerRuntime(), "operators": operators()}
}

// controllerRuntime returns all suites of controller-runtime that start a control plane.
func controllerRuntime() []suite {
	var all []suite
	for _, path := range []string{
		"builder", "cache", "client", "client/apiutil", "cluster", "controller", "controller/controllerutil", "envtest", "handler",
		"internal/controller", "internal/recorder", "internal/testing/controlplane", "manager", "manager/internal/integration",
		"metrics/filters", "reconcile", "source", "webhook",
	} {
		all = append(all, suite{
			module: "sigs.k8s.io/controller-runtime", version: "v0.25.2", path: "pkg/" + path, without: controllerRuntimeWithout()["pkg/"+path],
		})
	}
	return all
}

// controllerRuntimeWithout returns what is left out of controller-runtime's suites, by package.
func controllerRuntimeWithout() map[string][]exception {
	return map[string][]exception{
		"pkg/client/apiutil": {{".*/aggregatedDiscovery=false", "it downloads upstream's API server 1.28, which is what it tests"}},
	}
}

// operators returns suites of operators, at pinned versions.
func operators() []suite {
	var all []suite
	for _, path := range []string{
		"controllers/crdmigrator", "core/reconcilers/machinedeployment", "core/reconcilers/machineset",
	} {
		s := suite{
			module: "sigs.k8s.io/cluster-api", version: "v1.14.2", path: path, sources: true,
			nested: map[string]string{"api": "sigs.k8s.io/cluster-api/api"},
		}
		if path == "controllers/crdmigrator" {
			s.without = []exception{{
				"TestReconcile/run_only_StorageVersionMigration",
				"it expects that nothing is applied to objects whose managed fields name a version that is gone; keelson applies it",
			}}
		}
		all = append(all, s)
	}
	for _, path := range []string{"apis/eventing/v1alpha1", "apis/keda/v1alpha1"} {
		all = append(all, suite{module: "github.com/kedacore/keda/v2", version: "v2.21.0", path: path})
	}
	for _, job := range []string{"mpi", "mxnet", "paddlepaddle", "pytorch", "tensorflow", "xgboost"} {
		all = append(all, suite{module: "github.com/kubeflow/training-operator", version: "v1.8.1", path: "pkg/controller.v1/" + job})
	}
	return all
}

// Package kubectlargs parses command lines of kubectl run, expose and create, and makes their objects with package
// generate, so that tests can compare keelson with kubectl.
package kubectlargs

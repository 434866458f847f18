// Package kubectlargs reads command lines of kubectl run, expose and create and makes their objects
// with package generate, so that tests can put the same commands to kubectl and to keelson.
package kubectlargs

// Package tests holds the black-box tests: dialects x processes x faults, against real servers. Package
// servers, below it, brings the servers.
package tests
